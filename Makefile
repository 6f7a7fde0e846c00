# `make demo` and `make test` set everything up on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Tests run on two processes; one BLAS thread each keeps them from fighting over the cores.
WORKERS ?= 2
# Pinned, so that a fresh install takes the same one everywhere; the tests need no GPU, so a CPU build will do:
# make test TORCH='--index-url=<an index of CPU builds> torch==2.13.0'
TORCH  ?= torch==2.13.0

.PHONY: demo test lint format docs clean

demo: $(VENV)/.demo
	$(BIN)/unpooled demo

test: $(VENV)/.dev lint
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Everything is made anew, so that nothing stays of names and examples that are gone.
docs: $(VENV)/.docs
	rm -rf docs/generated build/docs
	@start=$$(date +%s); \
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -n -q -b html -d build/docs/doctrees docs build/docs/html && \
	echo "build/docs/html/index.html: $$(find build/docs/html -name '*.html' | wc -l) pages, $$(du -sh build/docs/html | cut -f1), built in $$(( $$(date +%s) - start )) s"

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unpooled needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; run: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[plot]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[plot,dask,privacy,flower,dev]' '$(TORCH)'
	touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[plot,privacy,docs]'
	touch $@

clean:
	rm -rf $(VENV) build dist docs/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis
