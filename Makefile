# `make demo` and `make test` each work as the only command on a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
READY := $(VENV)/.ready
MIXTURES := $(VENV)/.mixtures
TYPESCRIPT := tests/api/typescript
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
UV := $(shell command -v uv)
# uv downloads and unpacks many files at once. It reads no settings of pip, so where it finds no
# registry, pip may.
INSTALL = install() { { test -n "$(UV)" && $(UV) pip install -qq --python $(BIN)/python "$$@"; } \
  || $(PIP) install --no-compile "$$@"; }; install
# All files at once and on all cores, where pip would compile one after the other. Without bytecode,
# each start of a command compiles for a second.
BYTECODE := $(BIN)/python -m compileall -q -j 0 $(VENV)/lib models service setwise
export PYTHONDONTWRITEBYTECODE :=
WORKERS ?= auto
MINUTES ?= 10
# Tests run in another order each time; the seed that a run printed repeats it.
ORDER := $(if $(SEED),--randomly-seed=$(SEED))
# Named by folder, so that the others are not even collected: collecting them takes long.
QUICK := setwise tests/architecture tests/domain tests/models/data tests/models/sets tests/api \
  $(wildcard tests/test_*.py) \
  -m "not (slow or postgresql or system or browser or data or verify)"

.PHONY: help setup demo ready-for-tests check test verify quick-tests all-tests fuzz coverage lint format lock bench screenshots clean
.DEFAULT_GOAL := help

help:  ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(READY)  ## Make .venv with every locked dependency and the setwise command

# Rebuilt only when a lock or the project file changes, so that later runs need no network.
# The locks are complete: without --no-deps, pip would resolve extras to releases that have no hash.
# What the service runs with comes first, so that the demo need not wait for the tools of developers.
$(RUNS): docker/requirements.lock docker/build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "setwise needs Python 3.11 or newer; point PYTHON at one: make PYTHON=python3.11"; exit 1; }
	@echo "Installing what the service needs into $(VENV) (less than a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(INSTALL) --no-deps --require-hashes -r docker/requirements.lock -r docker/build.lock
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@echo "Compiling the learner (less than a minute)"
	@nice $(BYTECODE) & $(BIN)/python -c 'from setwise.models.compilation import compile_ahead as c; c()' \
	  && wait $$!
	@touch $@

$(READY): $(RUNS) requirements.lock $(TYPESCRIPT)/package-lock.json
	@echo "Installing the tools of developers"
	@$(INSTALL) --no-deps --require-hashes -r requirements.lock
	@if command -v npm >/dev/null; then mkdir -p $(VENV)/typescript \
	  && cp $(TYPESCRIPT)/package*.json $(VENV)/typescript \
	  && npm ci --prefix $(VENV)/typescript --ignore-scripts --no-audit --no-fund --silent; fi
	@$(BYTECODE)
	@touch $@

# For tests alone: nothing in the demo has mixtures, so it need not wait for them.
$(MIXTURES): $(RUNS)
	@echo "Compiling mixtures (about a minute)"
	@$(BIN)/python -c 'from setwise.models.compilation import compile_ahead as c; c(mixtures=True)'
	@touch $@

demo: $(RUNS)  ## Train on generated notes, start the service, fill its queue; EMPTY=1: no model, no documents
	$(BIN)/setwise demo$(if $(EMPTY), --empty)

# The tools of developers come in while mixtures compile.
ready-for-tests:
	@$(MAKE) --no-print-directory $(RUNS)
	@$(MAKE) --no-print-directory -j2 setup $(MIXTURES)

# Types are checked while tests are collected.
check: ready-for-tests  ## Style, types, import rules and the quick tests, in a minute
	@$(MAKE) --no-print-directory -j2 lint quick-tests

test: ready-for-tests  ## All of that, and every promise in its smallest form, in ten minutes
	@$(MAKE) --no-print-directory -j2 lint all-tests

verify: ready-for-tests  ## The long proofs: simulations, whole real data sets, the image, hundreds of kills
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ORDER) -m "verify or hypothesis" \
	  --hypothesis-profile long

quick-tests:
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ORDER) $(QUICK)

all-tests:
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ORDER) -m "not verify"

fuzz: setup  ## Draw requests with each role: MINUTES=10 on each database
	SETWISE_FUZZ_SECONDS=$$(( 60 * $(MINUTES) / 5 )) \
	  $(BIN)/python -m pytest -rP tests/system/test_drawn_requests.py

coverage: setup  ## All tests, with the lines and branches that they do not reach
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ORDER) --cov --cov-report=term

lint: setup  ## Style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## Rewrite the sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:  ## Resolve the dependencies again (needs uv)
	uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --quiet --upgrade --output-file requirements.lock
	uv pip compile pyproject.toml --extra service --extra oidc --extra telemetry --extra s3 --extra gcs --extra azure --extra dask --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" --quiet --constraint requirements.lock \
	  --output-file docker/requirements.lock
	{ echo "# What builds the wheel; the same as in requirements.lock."; \
	  awk '/^setuptools==/{p=1} p{print} p&&!/\\$$/{exit}' requirements.lock; } > docker/build.lock

bench: setup  ## Run every benchmark; each prints ratios against a named alternative
	@for file in benchmarks/bench_*.py; do name=$$(basename "$$file" .py); \
	  echo "== $$name"; $(BIN)/python -m "benchmarks.$$name" || exit 1; done

screenshots: setup  ## Look at every page of the demo: pictures, axe, nothing that sticks out
	$(BIN)/python -m tests.browser.screenshots

clean:  ## Remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* *.egg-info
