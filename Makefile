# Every target needs nothing before it: the environment is made, and made again when the lock file changes.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made-from-lock
# Byte code makes every start of a tool faster; some shells switch it off.
unexport PYTHONDONTWRITEBYTECODE
SEED ?= 20260101
ROWS ?=
BENCH ?=

.PHONY: help setup demo test check format bench soak lock clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: $(STAMP)  ## make .venv, with the command `graveler` in it

$(STAMP): requirements.lock pyproject.toml
	@echo "== making $(VENV) from requirements.lock"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes --compile-bytecode requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

lock:  ## pin the newest versions that fit pyproject.toml, without any registry address
	@$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 \
	    --extra dev pyproject.toml -o requirements.lock

test: setup  ## all tests; SEED=n for another run of the random ones
	@$(BIN)/python -m pytest -n 2 --hypothesis-seed=$(SEED) tests

soak: setup  ## the long campaigns: interleavings, real processes, merges, histories (half an hour)
	@GRAVELER_SCHEDULES=$${GRAVELER_SCHEDULES:-20000} GRAVELER_SOAK_SECONDS=$${GRAVELER_SOAK_SECONDS:-60} \
	    GRAVELER_MERGE_CASES=$${GRAVELER_MERGE_CASES:-200000} GRAVELER_HISTORIES=$${GRAVELER_HISTORIES:-40000} \
	    $(BIN)/python -m pytest -n 2 --hypothesis-seed=$(SEED) tests

check: setup  ## formatting, lint, strict types, import rules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup  ## mend formatting and what ruff can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup  ## measure on 1.6 million real paths; ROWS=regex for some rows, BENCH="--write" to keep the table
	@$(BIN)/python -m bench --rows '$(ROWS)' $(BENCH)

demo: setup  ## the main job on real input: import, branch, change, merge, time travel
	@$(BIN)/graveler demo

clean:  ## remove what the targets made
	rm -rf $(VENV) demo-lake .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
