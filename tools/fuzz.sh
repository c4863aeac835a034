#!/bin/sh
# fuzz.sh SECONDS: build the fuzz targets with sanitizers and share the time among them.  Inputs found stay in
# build-fuzz/corpus; a crash leaves its input in build-fuzz/crashes, prints how to repeat it, and fails.
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=${1:-600}
build=build-fuzz
command -v clang >/dev/null || { echo "fuzzing needs clang (apt-get install clang)"; exit 1; }
[ -f $build/build.ninja ] || CC=clang meson setup $build --buildtype=debugoptimized -Dfuzz=true -Dtests=disabled \
  -Dpython=disabled -Dcli=disabled -Dslow_checks=true -Db_sanitize=address,undefined -Db_lundef=false \
  -Dc_args='-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined -Wno-pass-failed' >$build.log 2>&1 || { cat $build.log; exit 1; }
rm -f $build.log
ninja -C $build --quiet || exit 1

targets=$(find $build/fuzz -maxdepth 1 -type f -perm -u+x -name 'fuzz_*' | sort)
n=$(echo "$targets" | wc -l)
each=$((seconds / n))
[ $each -ge 1 ] || each=1
mkdir -p $build/crashes
status=0
for target in $targets; do
  name=$(basename "$target")
  corpus=$build/corpus/$name
  mkdir -p "$corpus" $build/seeds/"$name"
  python3 tools/fuzz_seeds.py "$name" $build/seeds/"$name"
  echo "$name: $each seconds"
  if ! "$target" -max_total_time=$each -timeout=30 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=0 -verbosity=0 \
      -artifact_prefix=$build/crashes/"$name"- "$corpus" $build/seeds/"$name" >$build/"$name".log 2>&1; then
    grep -E 'ERROR|SUMMARY|fuzz:|runtime error|Test unit' $build/"$name".log | head -10
    echo "repeat with: $target $build/crashes/$name-..."
    status=1
  fi
done
[ $status = 0 ] && echo "no crash in $seconds seconds"
exit $status
