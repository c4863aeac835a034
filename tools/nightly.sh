#!/bin/sh
# nightly.sh: the long proofs, one after the other; goes on after a failure and names all of them at the end.
#   RUSHLIGHT_CORPUS=dir  a made corpus (../shared/corpus/make.py); without it one is made in build-nightly, given torch
#   PYTHON=path           a Python with torch 2.13.0
#   RUSHLIGHT_BROWSER=path  a Chromium that looks at the page of `show --html`; without one installed that is skipped
set -u
cd "$(dirname "$0")/.." || exit 1
export RUSHLIGHT_NIGHTLY=1 # tests/python: the long ones too
jobs=$(nproc 2>/dev/null || echo 2)
failed=""
step() {
  name=$1
  shift
  echo "== $name"
  "$@" || { echo "== $name: FAILED"; failed="$failed, $name"; }
}
# build DIR COMPILER OPTION...
build() {
  dir=$1 compiler=$2
  shift 2
  [ -f "$dir/build.ninja" ] || CC=$compiler meson setup "$dir" "$@" >"$dir.log" 2>&1 || { tail -20 "$dir.log"; return 1; }
  rm -f "$dir.log"
  ninja -C "$dir" -j"$jobs" --quiet
}
sanitized() { # DIR COMPILER SANITIZERS
  build "$1" "$2" --buildtype=debugoptimized -Dslow_checks=true -Db_sanitize="$3" -Db_lundef=false -Dpython=disabled &&
    meson test -C "$1" --suite unit --no-rebuild -q --print-errorlogs -t 10
}

step "release, gcc" make test BUILD=build-nightly CC=gcc
step "clang builds" build build-clang clang --buildtype=release -Dpython=disabled
step "address and undefined, clang" sanitized build-asan clang address,undefined
step "threads, gcc" sanitized build-tsan gcc thread
step "storm of 64 threads, 60 s" env RUSH_STORM_SECONDS=60 RUSH_STORM_THREADS=64 RUSH_TEST_DATA=tests/data \
  build-tsan/tests/test_api_threads_state
step "a small program" "${PYTHON:-python3}" tests/house/small.py --meson cc build-nightly/cli/rushlight
command -v valgrind >/dev/null && step "uninitialised memory" meson test -C build-nightly --suite unit -q -t 60 --no-rebuild \
  --wrap='valgrind --error-exitcode=99 -q'

corpus=${RUSHLIGHT_CORPUS:-build-nightly/corpus} # made by the tests of the first step
if [ -d "$corpus" ] && [ -x build-asan/cli/rushlight ]; then
  step "whole corpus, sanitized" build-asan/cli/rushlight verify "$corpus"
else
  echo "skipped: the whole corpus with sanitizers: none here"
fi
python=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
if "$python" -c 'import torch, expecttest' 2>/dev/null; then
  step "same bits with any threads and instruction set" env PYTHONPATH=build-nightly/python "$python" tests/python/same_bits.py \
    --shapes 2 $([ -d "$corpus" ] && echo --corpus "$corpus")
  step "operators, all samples, forms and layouts" env PYTHONPATH=build-nightly/python "$python" tests/python/op_walk.py \
    --jobs "$jobs" --layouts 2
  step "20,000 random programs, by three interpreters" env PYTHONPATH=build-nightly/python "$python" tests/python/random_run.py \
    --today --count 20000 --jobs "$jobs" --census
  step "20,000 random programs over tensors, by all executors" env PYTHONPATH=build-nightly/python "$python" \
    tests/python/random_run.py --today --count 20000 --jobs "$jobs" --tensors
  step "20,000 symbolic expressions, as sympy has them" env RUSH_BUILD_DIR=build-nightly RUSH_N_EXPRESSIONS=20000 \
    "$python" -m pytest -q tests/python/test_expressions.py
  [ ! -d "$corpus" ] || step "TorchScript to exported programs, beside PyTorch" env PYTHONPATH=build-nightly/python "$python" \
    tests/python/export_walk.py "$corpus"
  [ ! -d "$corpus" ] || step "sizes that exported programs refuse, beside PyTorch" env PYTHONPATH=build-nightly/python "$python" \
    tests/python/export_sizes.py "$corpus"
  step "decompositions of all operators" env PYTHONPATH=build-nightly/python:tests/python "$python" tests/python/decompose_walk.py
  step "gradients, all samples" env PYTHONPATH=build-nightly/python "$python" tests/python/grad_walk.py
  [ ! -d "$corpus" ] || step "training, the whole corpus" env PYTHONPATH=build-nightly/python "$python" tests/python/train_walk.py "$corpus"
  step "a zoo of other libraries' models" env PYTHONPATH=build-nightly/python "$python" tests/zoo/zoo.py --jobs "$jobs"
  step "the zoo's models exported, beside torch.export" env PYTHONPATH=build-nightly/python "$python" tests/zoo/export_zoo.py \
    --jobs "$jobs"
  step "second derivatives" env PYTHONPATH=build-nightly/python "$python" tests/python/second_walk.py --jobs "$jobs"
else
  echo "skipped: same bits, gradients: no torch here"
fi
step "20,000 programs that lie, release and sanitized" "$python" tests/python/lying_run.py --today --count 20000 --jobs "$jobs" \
  --census --command build-nightly/cli/rushlight --against build-asan/cli/rushlight
step "5,000 programs that lie, exported, release and sanitized" "$python" tests/python/lying_run.py --today --count 5000 \
  --jobs "$jobs" --census --verb export --command build-nightly/cli/rushlight --against build-asan/cli/rushlight
step "20,000 exported programs changed at random, sanitized" "$python" tests/python/mutated_exports.py --today --count 20000 \
  --jobs "$jobs" --replay build-asan/fuzz/replay
step "planted faults" env PYTHONPATH=build-nightly/python "$python" tests/python/planted_faults.py --jobs "$jobs"
step "resident memory, 10000 calls" env RUSH_CALLS=10000 RUSH_TEST_DATA=tests/data build-nightly/tests/test_api_resident
step "deadlines" env RUSH_BUILD_DIR=build-nightly "$python" tests/python/deadlines.py
step "fuzzers" sh tools/fuzz.sh 600
if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null && [ -d "$corpus" ]; then
  step "AArch64, under qemu" sh tools/aarch64.sh "$corpus" -- build-nightly/cli/rushlight
else
  echo "skipped: AArch64: no cross compiler, qemu-user or corpus here"
fi
step "size" sh tools/size.sh build-nightly

if [ -n "$failed" ]; then
  echo "nightly failed: ${failed#, }"
  exit 1
fi
echo "nightly passed"
