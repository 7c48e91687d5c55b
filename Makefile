# make demo: train the Tree-LSTM on the standard library. make test: run the tests.
# make bench: Weft beside PyTorch, on 1 and 2 threads. All set up .venv here first. Another Python: make test PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DOCTESTED := $(shell grep -rl --include='*.py' '>>>' src)
SOURCES := $(shell find src -name '*.py' -o -name '*.pxd') setup.py pyproject.toml

.PHONY: demo bench test lint types doctests semantics derivatives conformance sanitize fuzz clean

demo: $(VENV)/.demo
	$(BIN)/weft demo $(ARGS)

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks --threads 1 $(ARGS)
	$(BIN)/python -m benchmarks --threads 2 $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

doctests: $(VENV)/.dev
	$(BIN)/python -m pytest -q --doctest-glob='*.md' $(wildcard *.md docs)
	$(if $(DOCTESTED),$(BIN)/python -m pytest -q --doctest-modules $(DOCTESTED))

semantics: $(VENV)/.dev
	$(BIN)/python tools/semantics.py

derivatives: $(VENV)/.dev
	$(BIN)/python tools/derivatives.py

conformance: $(VENV)/.dev
	$(BIN)/python tools/conformance $(ARGS)

sanitize: $(VENV)/.dev
	$(BIN)/python tools/sanitize.py $(ARGS)

fuzz: $(VENV)/.dev
	$(BIN)/python -W ignore tools/fuzz_files.py $(ARGS)

clean:
	rm -rf $(VENV) build src/*.egg-info demo-out
	find src -name '*.so' -delete

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "weft needs Python 3.11 or newer; name one with make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || \
	  { echo "this Python lacks the venv module (Debian: apt install python3-venv)"; exit 1; }
	@command -v $${CC:-cc} >/dev/null || \
	  { echo "weft needs a C compiler (Debian: apt install gcc; macOS: xcode-select --install)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(SOURCES) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[demo,files]'
	@touch $@

$(VENV)/.dev: $(SOURCES) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev,demo,files]'
	@touch $@ $(VENV)/.demo

# JAX is measured too where it is installed: .venv/bin/python -m pip install jax
# DyNet (its wheels are for Python 3.8): make bench ARGS="--only treelstm tagger characters --dynet python3.8"
$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[torch]'
	@touch $@
