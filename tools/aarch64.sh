#!/bin/sh
# aarch64.sh CORPUS... [-- NATIVE]: builds for AArch64, twice, and proves both under qemu-user: build-aarch64 with NEON,
# build-aarch64-c with -Disa=portable.  The unit tests of what NEON kernels compute pass; every program of the corpora passes;
# and each result differs from PyTorch's by exactly as much, at the same element, with both, and with NATIVE
# (default: build/cli/rushlight), which chose other instructions.
set -eu
cd "$(dirname "$0")/.."
corpora=""
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  corpora="$corpora $1"
  shift
done
native=${2:-build/cli/rushlight}
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
  qemu-aarch64 build-aarch64/cli/rushlight verify "$corpus" | tail -5
done
wanted=$(mktemp) found=$(mktemp)
trap 'rm -f "$wanted" "$found"' EXIT
differences "$native" >"$wanted" || true # of most programs some last bit differs from PyTorch's
for dir in build-aarch64 build-aarch64-c; do
  differences qemu-aarch64 "$dir"/cli/rushlight >"$found" || true
  diff "$wanted" "$found" || { echo "$dir: other results than $native"; exit 1; }
done
echo "$(grep -c '"case"' "$wanted") programs: the same differences from PyTorch's results, to the last digit, as $native"
