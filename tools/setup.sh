#!/bin/sh
# setup.sh [tests]: see that the tools of a build (and of the tests) are here; get what can be got.
#
# Debian packages that are missing are named, and installed when we are root.  Meson and ninja come from
# pip into .venv when the system has none.  With "tests": pytest and numpy too, and torch 2.13.0 (CPU) if
# RUSH_GET_TORCH=1.  What cannot be had for the tests is no error: they say what they skip.
set -u
cd "$(dirname "$0")/.." || exit 1
what=${1:-build}

have() { command -v "$1" >/dev/null 2>&1; }

missing=""
need() { # need PACKAGE TEST...
  package=$1
  shift
  "$@" >/dev/null 2>&1 || missing="$missing $package"
}
header() { echo "#include <$1>" | "${CC:-cc}" -E - ; }
cmocka() { printf '#include <stdarg.h>\n#include <stddef.h>\n#include <setjmp.h>\n#include <stdint.h>\n#include <cmocka.h>\n' | "${CC:-cc}" -E - ; }

need gcc have "${CC:-cc}"
need binutils have objcopy
need pkg-config have pkg-config
need python3 have python3
need zlib1g-dev header zlib.h
if [ "$what" = tests ]; then
  need libcmocka-dev cmocka
  need g++ have "${CXX:-c++}"
fi
if ! have meson || ! have ninja; then
  need python3-venv python3 -c 'import venv, ensurepip'
fi

if [ -n "$missing" ]; then
  echo "missing Debian packages:$missing"
  if [ "$(id -u)" = 0 ] && have apt-get; then
    # shellcheck disable=SC2086
    (apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends libc6-dev $missing) \
      >/tmp/rushlight-apt.log 2>&1 || { tail -5 /tmp/rushlight-apt.log; echo "apt-get failed"; exit 1; }
  else
    echo "install them:  sudo apt-get install$missing"
    exit 1
  fi
fi

in_venv() { [ -x .venv/bin/python ] || python3 -m venv .venv; }
pip_get() { .venv/bin/python -m pip install -qq --disable-pip-version-check "$@"; }

if ! { have meson && have ninja; } && ! { [ -x .venv/bin/meson ] && [ -x .venv/bin/ninja ]; }; then
  echo "getting meson and ninja into .venv"
  { in_venv && pip_get 'meson>=1.3' ninja; } || { echo "meson and ninja are needed: install them"; exit 1; }
fi

if [ "$what" = tests ] && [ -z "${PYTHON:-}" ]; then
  if ! .venv/bin/python -c 'import pytest, numpy' 2>/dev/null && ! python3 -c 'import pytest, numpy' 2>/dev/null; then
    echo "getting pytest and numpy into .venv"
    { in_venv && pip_get pytest numpy; } || echo "no pytest or numpy: the Python tests will be skipped"
  fi
  if [ "${RUSH_GET_TORCH:-0}" = 1 ] && ! .venv/bin/python -c 'import torch' 2>/dev/null; then
    echo "getting torch 2.13.0 (CPU) into .venv"
    # The wheel without CUDA: from the configured index if it has it, else from PyTorch's.
    { in_venv && { pip_get --retries 1 torch==2.13.0+cpu 2>/dev/null ||
                   pip_get --retries 1 --index-url https://download.pytorch.org/whl/cpu torch==2.13.0 2>/dev/null ||
                   pip_get torch==2.13.0; } && pip_get pytest numpy expecttest; } ||
      echo "no torch: what compares with PyTorch will be skipped"
  fi
fi
exit 0
