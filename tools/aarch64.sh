#!/bin/sh
# aarch64.sh CORPUS... [-- NATIVE]: build for AArch64 twice, with NEON (build-aarch64) and with C alone (build-aarch64-c), and
# try both under qemu-user.  It fails if a unit test or a program of the corpora fails with NEON, or if a program's results are
# not as far from PyTorch's, at the same element, with both builds and with NATIVE (build/cli/rushlight).
set -eu
cd "$(dirname "$0")/.."
corpora=""
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  corpora="$corpora $1"
  shift
done
native=${2:-build/cli/rushlight}
[ -n "$corpora" ] && [ -x "$native" ] || { echo "usage: aarch64.sh CORPUS... [-- NATIVE]; no corpus, or no $native"; exit 1; }
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
  command -v $tool >/dev/null || { echo "no $tool: packaging/aarch64-linux-gnu.ini says what to install"; exit 1; }
done

build() { # DIR OPTION...
  dir=$1
  shift
  [ -f "$dir/build.ninja" ] ||
    meson setup "$dir" --cross-file packaging/aarch64-linux-gnu.ini "$@" >"$dir.log" 2>&1 || { tail -20 "$dir.log"; return 1; }
  rm -f "$dir.log"
  ninja -C "$dir" --quiet
}
build build-aarch64 -Dtests=enabled
build build-aarch64-c -Disa=portable -Dtests=disabled

# Left out: a process with threads that forks ends in qemu 7.2 itself; the others take many minutes there.
tests=$(meson test -C build-aarch64 --suite unit --list 2>/dev/null | sed -n 's/^unit - rushlight://p' |
  grep -v -x -e api/fork -e api/planning -e api/resident -e fuzz/replay -e fuzz/operators)
# shellcheck disable=SC2086
meson test -C build-aarch64 --no-rebuild -q --print-errorlogs -t 20 $tests

# Print what each program's results differ by.
differences() {
  for corpus in $corpora; do
    "$@" verify "$corpus" --json --rtol 0 --atol 0 | sed 's/, "seconds": [0-9.e+-]*//'
  done
}
for corpus in $corpora; do
  qemu-aarch64 build-aarch64/cli/rushlight verify "$corpus"
done
wanted=$(mktemp) found=$(mktemp)
trap 'rm -f "$wanted" "$found"' EXIT
differences "$native" >"$wanted" || true # many programs differ from PyTorch in a last bit
grep -q '"case"' "$wanted" || { echo "$native found no programs"; exit 1; }
for dir in build-aarch64 build-aarch64-c; do
  differences qemu-aarch64 "$dir"/cli/rushlight >"$found" || true
  diff "$wanted" "$found" || { echo "$dir: other results than $native"; exit 1; }
done
echo "$(grep -c '"case"' "$wanted") programs: the same differences from PyTorch's results, to the last digit, as $native"
