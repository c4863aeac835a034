#!/bin/sh
# partial_link.sh OUT.a CORE.a OBJCOPY AR CC...: one object of all of CORE.a, hidden symbols made local.
set -eu
out=$1 core=$2 objcopy=$3 ar=$4
shift 4
object=${out%.a}.o
rm -f "$out" "$object"
"$@" -r -nostdlib -o "$object" -Wl,--whole-archive "$core" -Wl,--no-whole-archive
"$objcopy" --localize-hidden "$object"
"$ar" rcsD "$out" "$object"
rm -f "$object"
