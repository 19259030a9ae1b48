# Every check of the project by name. `make demo`, `make check` and `make test` need nothing but Python 3.11 to 3.13.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
OUT    ?= demo-report

# Where Python may not keep what it compiled, every process compiles JAX anew: three times the time of an import.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo check test doubles nightly versions examples coverage lint format goldens types bench gpu docs site playground figures lock clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info[:2] < (3, 14) else "gmlmdsl needs Python 3.11 to 3.13, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

# Installs are editable, so that the checkout's files are what runs; a stamp is renewed when the dependencies change.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[demo]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[test,demo,netcdf,docs,site]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo  ## fit, compare and sample handwritten digits; writes demo-report/report.html
	$(BIN)/gmlm demo --out $(OUT)

check: $(VENV)/.test  ## what a newcomer runs after an installation, two minutes: some tests of every part, marked `check`
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m 'check and not slow'

test: $(VENV)/.test  ## all tests but the nightly ones
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

doubles: $(VENV)/.test  ## the tests of `make test` under 64-bit types, `JAX_ENABLE_X64=1`
	JAX_ENABLE_X64=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile

nightly: $(VENV)/.test  ## all tests, the statistical ones among them, under one random hash seed; writes docs/nightly.md
	$(BIN)/python tests/nightly_run.py --jobs $(JOBS)

versions: $(VENV)/.test  ## the tests of `make check` under Python 3.11 with the lowest versions of all dependencies, 3.12 and 3.13; needs them
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/python tests/versions.py

examples: $(VENV)/.test  ## run the documented examples but those of the night: processor time beside the kept figure
	$(BIN)/python tests/documented_examples.py --jobs $(JOBS)

coverage: $(VENV)/.test  ## the tests of `make test` with their branches counted; fails below the floor of pyproject.toml
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --cov --cov-report=term:skip-covered

# What stands before the tests or beside them: `.ci/run` and pre-commit make these two, and say nothing of their own.
lint: $(VENV)/.test  ## ruff: rules and format; tidy ends of lines and files, data that can be read
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/tidy.py

format: $(VENV)/.test  ## mend what ruff can, and build the generated files anew
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python grammar/build_tables.py
	$(BIN)/python docs/build_reference.py

goldens: $(VENV)/.test  ## write the expected texts anew, and the generated pages; read the difference before you commit
	GMLM_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile tests/program/test_valid_goldens.py tests/program/test_diagnostics.py \
	  tests/syntax/test_habits.py tests/syntax/test_mutant_goldens.py tests/cli/test_check_command.py
	$(BIN)/python docs/build_reference.py

types: $(VENV)/.test  ## pyright
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(VENV)/.test  ## measure speed; a table and JSON
	$(BIN)/python tests/benchmarks

gpu: $(VENV)/.test  ## ten minutes of an accelerator: answers beside the CPU's, rates, latencies; writes docs/reference/accelerator.md
	$(BIN)/python tests/gpu_run.py --page docs/reference/accelerator.md

docs: $(VENV)/.test  ## build the generated pages; run every block and check every link
	$(BIN)/python docs/build_reference.py
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m 'slow or not slow' tests/test_docs.py tests/test_readme.py

site: $(VENV)/.test  ## build the documentation as a site, build/site/index.html; runs no block, and a warning is an error
	$(BIN)/python -m sphinx -q -W --keep-going -b html -c docs -d build/doctrees . build/site

playground:  ## build a page that checks programs in a browser, build/playground; takes Pyodide from npm
	$(PYTHON) docs/build_playground.py

figures: $(VENV)/.demo  ## draw the gallery's pictures and its tables of numbers (minutes)
	$(BIN)/python examples/labs/gallery/build.py

lock: $(VENV)/.test  ## write the lock of developers anew, tests/requirements.lock: the newest versions that fit, with hashes
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/python -m uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
	  --extra test --extra demo --extra netcdf --extra docs --extra site pyproject.toml --output-file tests/requirements.lock

clean:  ## remove what the other targets make
	rm -rf $(VENV) build dist $(OUT) .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* htmlcov
