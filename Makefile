# make demo: train the Tree-LSTM on the standard library. make test: run the tests.
# make bench: Weft beside PyTorch, on 1 and 2 threads. make wheels: what users install. make docs: the documentation.
# All set up .venv here first and compile what has changed. Another Python: make test PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Not those that are compiled, whose examples tests/project/test_docstrings.py runs.
DOCTESTED := $(shell grep -rl --include='*.py' '>>>' src | xargs grep -L '^# cython: language_level')

CPU := tests/engine/devices/cpu
CODEGEN := $(CPU)/codegen
GUARDED := tests/engine/runtime/test_interpreter.py tests/engine/runtime/test_random_index_programs.py \
	tests/engine/runtime/test_random_cases.py \
	tests/tensor/memory/test_values_with_less_memory.py tests/tensor/test_empty_values.py tests/ops/test_misfits.py \
	$(CODEGEN)/test_loops.py $(CODEGEN)/test_kernels_at_random.py tests/engine/frontend/test_aliasing.py

.PHONY: build demo bench test docs lint types doctests semantics derivatives conformance kernels sanitize guard fuzz random wheels clean

# What is not to be done costs less than a second.
build: $(VENV)/.build-requires
	@$(BIN)/python setup.py --quiet build_ext --inplace

# Kernels that programs begin with, compiled for this machine (decision 109): by what runs programs, since it needs what
# they need. Where it fails, they are compiled when they are wanted.
KERNELS = -@$(BIN)/python tools/ship_kernels.py --own

demo: $(VENV)/.demo build
	$(KERNELS)
	$(BIN)/weft demo $(ARGS)

bench: $(VENV)/.bench build
	$(KERNELS)
	$(BIN)/python -m benchmarks --threads 1 $(ARGS)
	$(BIN)/python -m benchmarks --threads 2 $(ARGS)

# Without ARGS: all tests, in as many processes as there are processors.
test: $(VENV)/.dev build
	$(KERNELS)
	$(BIN)/python -m pytest $(or $(ARGS),--numprocesses auto)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev build
	$(BIN)/mypy

doctests: $(VENV)/.dev build
	$(BIN)/python -m pytest -q --doctest-glob='*.md' $(wildcard *.md docs)
	$(if $(DOCTESTED),$(BIN)/python -m pytest -q --doctest-modules $(DOCTESTED))

semantics: $(VENV)/.bench build
	$(BIN)/python tools/semantics.py

derivatives: $(VENV)/.bench build
	$(BIN)/python tools/derivatives.py

conformance: $(VENV)/.bench build
	$(BIN)/python tools/conformance $(ARGS)

# As a wheel has them: for each level of this family of processors.
kernels: $(VENV)/.demo build
	$(BIN)/python tools/ship_kernels.py

sanitize: $(VENV)/.dev build
	$(BIN)/python tools/sanitize.py $(ARGS)

guard: $(VENV)/.bench build
	WEFT_GUARD=1 $(BIN)/python -m pytest -q $(GUARDED) $(CPU)/kernels/test_families.py $(CPU)/gemm/test_gemm.py $(ARGS)
	WEFT_GUARD=begin $(BIN)/python -m pytest -q $(GUARDED) $(ARGS)

fuzz: $(VENV)/.dev build
	$(BIN)/python -W ignore tools/fuzz_files.py $(ARGS)

random: $(VENV)/.bench build
	$(BIN)/python tools/random_programs.py $(ARGS)

# Into build/docs; a warning is an error, and so is a link that leads nowhere or a name that is not there.
docs: $(VENV)/.docs build
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --builder html docs build/docs
	$(BIN)/python tools/check_site.py build/docs
	@echo "open build/docs/index.html"

wheels: $(VENV)/.wheels
	$(BIN)/python tools/wheels.py $(ARGS)

clean:
	rm -rf $(VENV) build dist src/*.egg-info demo-out
	find src -name '*.so' -delete

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "weft needs Python 3.11 or newer; name one with make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || \
	  { echo "this Python lacks the venv module (Debian: apt install python3-venv)"; exit 1; }
	@command -v $${CC:-cc} >/dev/null || \
	  { echo "weft needs a C compiler (Debian: apt install gcc; macOS: xcode-select --install)"; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# pip would compile in silence: `build` compiles first and says what it does, and pip finds everything compiled.
$(VENV)/.build-requires: pyproject.toml | $(VENV)/bin/python
	@echo "installing what the build needs"
	@$(PIP) install --quiet 'setuptools>=77' 'Cython>=3.1'
	@touch $@

$(VENV)/.demo: pyproject.toml | build
	@echo "installing what the demo needs"
	@$(PIP) install --quiet --no-build-isolation --editable '.[demo,files]'
	@touch $@

$(VENV)/.dev: pyproject.toml | build
	@echo "installing what the tests need"
	@$(PIP) install --quiet --no-build-isolation --editable '.[dev,demo,files,distributed,onnx,tensorboard]'
	@$(BIN)/python setup.py --quiet build_ext --inplace  # stubs: they need what has been installed
	@touch $@ $(VENV)/.demo

$(VENV)/.wheels: pyproject.toml | $(VENV)/.dev
	$(PIP) install --quiet --no-build-isolation --editable '.[wheels]'
	@touch $@

$(VENV)/.docs: pyproject.toml | build
	@echo "installing what the documentation needs"
	@$(PIP) install --quiet --no-build-isolation --editable '.[docs,files]'
	@touch $@

# What is compared with PyTorch. JAX is measured too where it is installed: .venv/bin/python -m pip install jax
# DyNet (its wheels are for Python 3.8): make bench ARGS="--only treelstm tagger characters --dynet python3.8"
$(VENV)/.bench: $(VENV)/.dev
	$(PIP) install --quiet --no-build-isolation --editable '.[torch]'
	@touch $@
