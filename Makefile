# A thin front of Meson: `make` builds, `make help` lists the rest.  Each target does its own set-up.
#   BUILD=dir   the build directory (build)       CC=clang      the compiler, at the first build
#   JOBS=n      parallel jobs                     PYTHON=path   for tests that need numpy or torch
BUILD ?= build
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
SECONDS ?= 600
PREFIX ?= /usr/local
export PATH := $(CURDIR)/.venv/bin:$(PATH)
PYTHON_RUN = $(or $(PYTHON),$(wildcard .venv/bin/python),python3)

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j$(JOBS)

help:
	@sed -n 's/^#: //p' Makefile

#: make            the library, the command and the Python module, in build/
#: make demo       open a program and run it
#: make train      train the demo's network from random weights
#: make test       all tests; ends with `N passed, N failed`
#: make bench      a table against PyTorch where it is there; build/bench.json
#: make fuzz       fuzz the readers; SECONDS=600 each
#: make nightly    the long proofs: sanitizers, whole corpus, fuzzers
#: make wheels      dist/: a wheel for every CPython 3.10 to 3.14 that is there, each installed and tried; PYTHONS="path ..."
#: make size       what the stripped library weighs, by folder
#: make status     docs/status.md anew, from the operator table
#: make format     clang-format over the lines changed since the last commit
#: make install    PREFIX=/usr/local, DESTDIR=; the command, the libraries, the headers, the docs
#: make clean

$(BUILD)/build.ninja: | setup
	@meson setup $(BUILD) --prefix=$(PREFIX) $(MESON_ARGS) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

setup:
	@sh tools/setup.sh

setup-tests:
	@sh tools/setup.sh tests

demo: all
	@sh tools/demo.sh $(BUILD)

train: all
	@$(BUILD)/examples/digits/train_digits examples/digits/digits.pt $(BUILD)/trained.pt

test: setup-tests $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j$(JOBS) --quiet
	@$(PYTHON_RUN) tools/run_tests.py $(BUILD)

bench: all
	@ninja -C $(BUILD) -j$(JOBS) --quiet bench-programs
	@$(PYTHON_RUN) bench/run.py --build $(BUILD) $(BENCH_ARGS)

fuzz: setup
	@sh tools/fuzz.sh $(SECONDS)

nightly: setup-tests
	@sh tools/nightly.sh

wheels: setup
	@$(PYTHON_RUN) tools/wheels.py $(PYTHONS)

size: all
	@sh tools/size.sh $(BUILD)

status: all
	@if $(PYTHON_RUN) -c 'import torch' 2>/dev/null; then \
	  PYTHONPATH=$(BUILD)/python $(PYTHON_RUN) tests/python/op_walk.py --samples 3 --json $(BUILD)/proven.json >/dev/null; \
	  PYTHONPATH=$(BUILD)/python $(PYTHON_RUN) tests/python/grad_walk.py --samples 10 --json $(BUILD)/gradients.json >/dev/null; \
	  $(PYTHON_RUN) tools/make_status.py --proven $(BUILD)/proven.json --gradients $(BUILD)/gradients.json; \
	else $(PYTHON_RUN) tools/make_status.py; fi

format:
	@git clang-format --extensions c,h HEAD

# Use the PREFIX of this command line even if the build was configured with another one; rushlight.pc contains it.
install: all
ifneq ($(filter command environment,$(word 1,$(origin PREFIX))),)
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX)) >/dev/null
	@ninja -C $(BUILD) -j$(JOBS) --quiet >/dev/null
endif
	@meson install -C $(BUILD) --no-rebuild --quiet --tags runtime,command,devel
	@echo "installed into $(DESTDIR)$$(meson introspect $(BUILD) --buildoptions | $(PYTHON_RUN) -c 'import json, sys; print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"))')"

clean:
	@rm -rf $(BUILD) build-*

.PHONY: all help setup setup-tests demo train test bench fuzz nightly size status format install clean
