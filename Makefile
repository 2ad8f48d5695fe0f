# `make demo` and `make test` each work as the only command on a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
READY := $(VENV)/.ready
MIXTURES := $(VENV)/.mixtures
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
# All files at once and on all cores, where pip would compile one after the other. Without bytecode,
# each start of a command compiles for a second.
BYTECODE := $(BIN)/python -m compileall -q -j 0 $(VENV)/lib models service setwise
export PYTHONDONTWRITEBYTECODE :=
WORKERS ?= auto
MINUTES ?= 10
# Named by folder, so that the others are not even collected: collecting them takes long.
QUICK := setwise tests/architecture tests/domain tests/models/data tests/models/sets tests/api \
  $(wildcard tests/test_*.py) \
  -m "not (slow or postgresql or system or browser or data or verify)"

.PHONY: help setup demo check test verify quick-tests all-tests fuzz coverage lint format lock bench screenshots clean
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
	@echo "Installing what the service needs into $(VENV) (half a minute the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --no-compile --no-deps --require-hashes -r docker/requirements.lock -r docker/build.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@$(BYTECODE)
	@echo "Compiling the learner (about half a minute)"
	@$(BIN)/python -c 'from setwise.models.compilation import compile_ahead as c; c()'
	@touch $@

$(READY): $(RUNS) requirements.lock
	@echo "Installing the tools of developers"
	@$(PIP) install --no-compile --no-deps --require-hashes -r requirements.lock
	@$(BYTECODE)
	@touch $@

# For tests alone: nothing in the demo has mixtures, so it need not wait for them.
$(MIXTURES): $(READY)
	@echo "Compiling mixtures (about a minute)"
	@$(BIN)/python -c 'from setwise.models.compilation import compile_ahead as c; c(mixtures=True)'
	@touch $@

demo: $(RUNS)  ## Train on generated notes, start the service, fill its queue
	$(BIN)/setwise demo

# Types are checked while tests are collected.
check: setup $(MIXTURES)  ## Style, types, import rules and the quick tests, in a minute
	@$(MAKE) --no-print-directory -j2 lint quick-tests

test: setup $(MIXTURES)  ## All of that, and every promise in its smallest form, in about ten minutes
	@$(MAKE) --no-print-directory -j2 lint all-tests

verify: setup $(MIXTURES)  ## The long proofs: simulations, whole real data sets, the image, hundreds of kills
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "verify or hypothesis" \
	  --hypothesis-profile long

quick-tests:
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(QUICK)

all-tests:
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not verify"

fuzz: setup  ## Draw requests with each role: MINUTES=10 on each database
	SETWISE_FUZZ_SECONDS=$$(( 60 * $(MINUTES) / 5 )) \
	  $(BIN)/python -m pytest -rP tests/system/test_drawn_requests.py

coverage: setup  ## All tests, with the lines and branches that they do not reach
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cov --cov-report=term

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
