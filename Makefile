# `make demo` and `make test` set everything up on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
LOWEST ?= .venv-lowest
PIP    := -m pip install --quiet --disable-pip-version-check
# What the library can work with; `dev` has what is needed besides to test it.
EXTRAS := plot,dask,privacy,flower
# Tests run on two processes; one BLAS thread each keeps them from fighting over the cores.
WORKERS ?= 2
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)
# Pinned, so that a fresh install takes the same one everywhere. The tests need no GPU, so a CPU build, which is much
# smaller, will do: make test TORCH_INDEX=<the address of an index of CPU builds>
TORCH  ?= torch==2.13.0
TORCH_INDEX ?=
INSTALL_TORCH = $(PIP) $(if $(TORCH_INDEX),'--index-url=$(TORCH_INDEX)') '$(TORCH)'

.PHONY: demo test test-lowest coverage lint format hooks run-hooks docs dist clean

demo: $(VENV)/.demo
	$(BIN)/unpooled demo

test: $(VENV)/.dev lint
	$(PYTEST)

# The same tests with the oldest versions of the libraries that pyproject.toml allows, in an environment of their own.
test-lowest: $(LOWEST)/.dev
	$(LOWEST)/bin/python -m uv pip list --quiet --python $(LOWEST)/bin/python
	$(subst $(BIN),$(LOWEST)/bin,$(PYTEST)) -W ignore::DeprecationWarning

# The same tests, slower, with a count of the lines and branches they run. Fails below the floor in pyproject.toml.
coverage: $(VENV)/.dev
	rm -rf build/coverage
	$(PYTEST) --cov --cov-report=term --cov-report=html

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# From now on git checks every commit first, as .pre-commit-config.yaml says. `run-hooks` checks all files at once.
hooks: $(VENV)/.dev
	$(BIN)/pre-commit install

run-hooks: $(VENV)/.dev
	$(BIN)/pre-commit run --all-files

# Everything is made anew, so that nothing stays of names and examples that are gone.
docs: $(VENV)/.docs
	rm -rf docs/generated build/docs
	@start=$$(date +%s); \
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -n -q -b html -d build/docs/doctrees docs build/docs/html && \
	echo "build/docs/html/index.html: $$(find build/docs/html -name '*.html' | wc -l) pages, $$(du -sh build/docs/html | cut -f1), built in $$(( $$(date +%s) - start )) s"

# The wheel and the source archive of a release, and the demo from the wheel alone, in a fresh environment.
dist: $(VENV)/bin/python
	rm -rf dist build/dist
	$(BIN)/python $(PIP) build twine
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/dist
	build/dist/bin/python $(PIP) "$$(ls dist/*.whl)[plot]"
	cd build/dist && bin/unpooled demo

$(VENV)/bin/python $(LOWEST)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unpooled needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; run: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(@:/bin/python=)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python $(PIP) -e '.[plot]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python $(INSTALL_TORCH)
	$(BIN)/python $(PIP) -e '.[$(EXTRAS),dev]'
	touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python $(PIP) -e '.[plot,privacy,docs]'
	touch $@

# uv takes the lowest version of what pyproject.toml names, and the newest of what that needs in turn.
$(LOWEST)/.dev: pyproject.toml | $(LOWEST)/bin/python
	$(LOWEST)/bin/python $(PIP) uv
	$(LOWEST)/bin/python $(INSTALL_TORCH)
	$(LOWEST)/bin/python -m uv pip install --quiet --python $(LOWEST)/bin/python --upgrade --resolution lowest-direct -e '.[$(EXTRAS),dev]'
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) build dist docs/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis
