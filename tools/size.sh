#!/bin/sh
# size.sh BUILD: the stripped shared library, and which folders' objects it is made of.
set -eu
build=$1
lib=$(find "$build/packaging" -name 'librushlight.so.*.*' -type f | head -1)
[ -n "$lib" ] || { echo "no shared library in $build"; exit 1; }
stripped=$(mktemp)
trap 'rm -f "$stripped"' EXIT
strip -o "$stripped" "$lib"
echo "librushlight.so, stripped: $(stat -c %s "$stripped") bytes"
find "$build/src" -name '*.o' | xargs size | awk '
  NR > 1 && $1 ~ /^[0-9]+$/ {
    n = split($6, path, "/"); name = path[n]; folder = name; sub(/_.*/, "", folder)
    code[folder] += $1; data[folder] += $2 + $3
  }
  END { for (f in code) printf "  %-10s %9d bytes of code and constants, %7d of relocated or writable data\n", f, code[f], data[f] }' | sort -k2 -n -r
limit=5500000 # DESIGN: with everything that is planned
[ "$(stat -c %s "$stripped")" -le $limit ] || { echo "over the limit of $limit bytes"; exit 1; }
