#!/bin/sh
# fuzz.sh [SECONDS [TARGET...]]: build the fuzz targets with sanitizers and run each so long (600), two at a time.
#
# Inputs found stay in build-fuzz/corpus.  A finding leaves its input in build-fuzz/crashes, says how to repeat it, and
# fails; mend it, and save the input under tests/data/fuzz/TARGET, where `make test` replays it.  What ran without one is
# recorded, with the line coverage of its reader, in fuzz/results.tsv, which `make status` shows.
#   RUSHLIGHT_CORPUS=dir  a made corpus (../shared/corpus/make.py): its small archives are first inputs too
#   PYTHON=path           a Python with torch 2.13.0: programs that it exports and tensors that it saves, too
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=${1:-600}
[ $# -eq 0 ] || shift
targets=${*:-zip pickle model export source schema ir archive operators}
build=build-fuzz cover=build-cover
command -v clang >/dev/null || { echo "fuzzing needs clang (apt-get install clang)"; exit 1; }

# make_in DIR PROGRAMS OPTION...: set up once, then build
make_in() {
  dir=$1 programs=$2
  shift 2
  [ -f "$dir/build.ninja" ] || CC=${CC:-clang} meson setup "$dir" -Dpython=disabled -Dcli=disabled -Dtests=disabled -Dfuzz=true "$@" \
    >"$dir.log" 2>&1 || { cat "$dir.log"; exit 1; }
  rm -f "$dir.log"
  # shellcheck disable=SC2086
  ninja -C "$dir" --quiet $programs || exit 1
}
# Floats that do not fit an integer become what the machine makes of them, as in PyTorch.
make_in $build "$(for name in $targets; do echo fuzz/fuzz_"$name"; done)" --buildtype=debugoptimized -Dslow_checks=true -Db_sanitize=address,undefined -Db_lundef=false \
  -Dc_args='-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined -fno-sanitize=float-cast-overflow -Wno-pass-failed'
mkdir -p $build/crashes

run() { # TARGET
  name=$1
  corpus=$build/corpus/$name seeds=$build/seeds/$name saved=tests/data/fuzz/$name
  mkdir -p "$corpus" "$seeds"
  ${PYTHON:-python3} tools/fuzz_seeds.py "$name" "$seeds" 2>/dev/null
  [ -d "$saved" ] || saved=$seeds
  dict=
  [ ! -s "$seeds".dict ] || dict=-dict="$seeds".dict # libFuzzer refuses an empty one
  longest=65536
  [ "$name" != source ] || longest=4096 # mutations by grammar: many small programs find more than a few big ones
  [ "$name" != operators ] || longest=512 # a name, and the choices of one call
  if nice -n 15 $build/fuzz/fuzz_"$name" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 -max_len=$longest -print_final_stats=1 \
      -verbosity=0 $dict -artifact_prefix=$build/crashes/"$name"- "$corpus" "$seeds" "$saved" >$build/"$name".log 2>&1; then
    echo "$name: $(sed -n 's/^stat::number_of_executed_units: //p' $build/"$name".log) executions in $seconds seconds, no finding"
  else
    echo "$name: a finding"
    grep -E 'ERROR|SUMMARY|fuzz:|runtime error|Test unit' $build/"$name".log | head -10
    echo "repeat with: $build/fuzz/fuzz_$name $build/crashes/$name-..."
    return 1
  fi
}

half() { # every second target, from the first or the second
  good=0
  while [ $# -gt 0 ]; do
    run "$1" || good=1
    shift
    [ $# -eq 0 ] || shift
  done
  return $good
}

status=0
# shellcheck disable=SC2086
{
  half $targets &
  first=$!
  set -- $targets
  shift
  half "$@" || status=1
  wait $first || status=1
}

# Line coverage of what was found, measured by replaying it.  What runs while it is built leaves no file.
export LLVM_PROFILE_FILE=/dev/null
make_in $cover fuzz/replay --buildtype=plain -Dwerror=false -Dc_args='-O1 -fprofile-instr-generate -fcoverage-mapping' \
  -Dc_link_args=-fprofile-instr-generate
for name in $targets; do
  ${PYTHON:-python3} tools/fuzz_record.py "$name" "$seconds" $build $cover || status=1
done
exit $status
