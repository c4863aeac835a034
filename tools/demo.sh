#!/bin/sh
# demo.sh BUILD: open a program and run it; no torch anywhere.
set -eu
rushlight=$1/cli/rushlight
[ -x "$rushlight" ] || { echo "no command in $1"; exit 1; }
run() {
  printf '\n$ rushlight'
  for word in "$@"; do case $word in *[\(\ ]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac; done
  printf '\n'
  "$rushlight" "$@"
}
run show tests/data/life.pt
run show tests/data/life.pt --code
run run tests/data/life.pt 6
run run tests/data/digits.pt 'randn(1,1,8,8)'
run bench tests/data/digits.pt 'randn(1,1,8,8)'
