#!/bin/sh
# demo.sh BUILD: a trained network reads a digit, from both kinds of archive; no torch anywhere.
set -eu
demo=$1/examples/digits/digits
rushlight=$1/cli/rushlight
[ -x "$demo" ] || { echo "no demo in $1: run make first"; exit 1; }
which=$(($(date +%s) % 10))
for model in digits.pt digits.pt2; do
  printf '\n$ digits examples/digits/%s\n\n' "$model"
  "$demo" "examples/digits/$model" examples/digits/images.npy "$which"
done
printf '$ rushlight show examples/digits/digits.pt\n'
"$rushlight" show examples/digits/digits.pt
