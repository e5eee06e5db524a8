# One command each, on a fresh machine: `make demo`, `make test`. Everything lives in .venv.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
# With a GPU the newest torch is wanted; without one, the version that constraints.txt names.
CONSTRAINT := $(shell nvidia-smi >/dev/null 2>&1 || echo "-c constraints.txt")
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINT)
# One BLAS thread per worker: two workers with two threads each fight over two cores.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: help demo test test-slow browser without-browser storm coverage lint docs dist bench clean

help:           ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo      ## all methods on the embedded dataset: demo/report.html, demo/review.html
	$(BIN)/propml demo --out demo

test: $(VENV)/.test without-browser ## run the tests (set PROPML_DATA to include the real files)
	$(PYTEST) -n 2 --dist loadgroup -m "not slow" $(ARGS)

test-slow: $(VENV)/.test without-browser ## run the tests marked slow
	$(PYTEST) -n 2 --dist loadgroup -m slow $(ARGS)

storm: $(VENV)/.test    ## random kills, damaged files, adversarial losses: STORM_MINUTES=10, a table at the end
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m storm $(ARGS)

coverage: $(VENV)/.test without-browser ## run the tests and print line coverage
	$(PYTEST) -n 2 --dist loadgroup -m "not slow" --cov=src/propml --cov-report=term-missing $(ARGS)

# Some tests open pages in a real browser. Only `make browser` installs one; without it they are skipped, and say so.
BROWSER := $(firstword $(foreach name,chromium chromium-browser google-chrome google-chrome-stable,$(shell command -v $(name) 2>/dev/null)))
without-browser:
	@$(if $(BROWSER),:,echo "no browser here: the tests of pages in a browser are skipped; 'make browser' installs chromium")

browser:        ## install chromium with apt-get (needs root), for the tests of pages in a browser
ifeq ($(BROWSER),)
	apt-get install -qq -y --no-install-recommends chromium || \
	{ apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; }
else
	@echo "a browser is here: $(BROWSER)"
endif

lint: $(VENV)/.test      ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs      ## build the site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

# The wheel alone, in an environment of its own: what the README promises must not need the source tree.
dist: | $(BIN)/python    ## build sdist and wheel, and run the README's examples from the wheel
	rm -rf dist build/wheel
	$(PIP) build
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet $(CONSTRAINT) "$$(echo dist/*.whl)[data]" pytest
	mkdir build/wheel/tests
	cp -r README.md pyproject.toml Makefile examples build/wheel
	cp tests/test_documents.py build/wheel/tests
	cd build/wheel && OMP_NUM_THREADS=1 venv/bin/python -m pytest -k "test_code_and_commands_run and README"

bench: $(VENV)/.test     ## run the speed comparisons (ratios, ours against the alternatives)
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:          ## remove the virtual environment and everything that was generated
	rm -rf $(VENV) demo build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "propml needs Python 3.11 or newer, and '$(PYTHON)' is not; name one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[report,data]"
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[test]"
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[docs]"
	@touch $@
