# Every target needs nothing before it: the environment is made, and made again when the lock file changes.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made-from-lock
DEMO_VENV := .venv-demo
DEMO_STAMP := $(DEMO_VENV)/.made-from-lock
DEPLOY_VENV := .venv-deploy
SPARK_VENV := .venv-spark
SPARK_STAMP := $(SPARK_VENV)/.made-from-lock
SPARK35_VENV := .venv-spark35
SPARK35_STAMP := $(SPARK35_VENV)/.made-from-lock
DEPLOY_STAMP := $(DEPLOY_VENV)/.made-from-lock
DOCS_VENV := .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.made-from-lock
CDK_STAMP := infra/node_modules/.made-from-lock
WEB_STAMP := web/node_modules/.made-from-lock
WEB_VENV := .venv-web
S3_CLIENTS_VENV ?= .venv-s3-clients
S3_CLIENTS_STAMP := $(S3_CLIENTS_VENV)/.made-from-lock
DUCKDB_S3_VENV ?= .venv-duckdb-s3
DUCKDB_S3_STAMP := $(DUCKDB_S3_VENV)/.made-from-lock
TABLE_CLIENTS_VENV ?= .venv-table-clients
TABLE_CLIENTS_STAMP := $(TABLE_CLIENTS_VENV)/.made-from-lock
S3_JAVASCRIPT := tests/gateway/clients/javascript/node_modules
S3_JAVASCRIPT_STAMP := $(S3_JAVASCRIPT)/.made-from-lock
WEB_VENV_STAMP := $(WEB_VENV)/.made-from-lock
# Byte code makes every start of a tool faster; some shells switch it off.
unexport PYTHONDONTWRITEBYTECODE
NEWEST ?= $(shell python3.13 -c 'import sys; print(sys.executable)' 2>/dev/null || \
    { pyenv versions --bare 2>/dev/null | grep '^3\.13' | tail -n 1 | xargs -r pyenv prefix | sed 's|$$|/bin/python|'; })
# The Spark of EMR's release emr-spark-8.0.0, so that what is tested here is what runs there.
EMR_SPARK := 4.0.2
SEED ?= 20260101
ROOMS ?= tests/tree tests/history tests/staging tests/lake
ARCHITECTURE ?= arm64
ROWS ?=
BENCH ?=
WRITE ?=

.PHONY: help setup s3-client-tools table-client-tools dist docs docs-tools web web-tools ui-dev check-web web-test-tools test-web screenshots deploy-tools spark-tools spark35-tools test-spark35 layer demo demo-spark spark-package test test-all test-deployed test-newest test-each check quick count openapi format bench acceptance soak soak-spark soak-tests soak-recipes soak-mutations lock clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

setup: $(STAMP)  ## make .venv, with the command `graveler` in it

$(STAMP): locks/dev.lock pyproject.toml
	@echo "== making $(VENV) from locks/dev.lock"
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("graveler needs Python 3.11 or newer, and $(PYTHON) is %d.%d; name another one: make $(MAKECMDGOALS) PYTHON=python3.12" % sys.version_info[:2])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/uv.lock
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes --compile-bytecode locks/dev.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

deploy-tools: $(DEPLOY_STAMP) $(CDK_STAMP)  ## make .venv-deploy and the CDK's command, for `cdk deploy` and its tests

$(DEPLOY_STAMP): locks/deploy.lock $(STAMP)
	@test -n "$(NEWEST)" || { echo "no Python 3.13 on this machine, which Lambda runs; install it"; exit 1; }
	@echo "== making $(DEPLOY_VENV) from locks/deploy.lock"
	@test -x $(DEPLOY_VENV)/bin/python || $(NEWEST) -m venv --without-pip $(DEPLOY_VENV)
	@$(BIN)/uv pip sync --quiet --python $(DEPLOY_VENV)/bin/python --require-hashes locks/deploy.lock
	@touch $@

$(CDK_STAMP): infra/package-lock.json
	@command -v npm > /dev/null || { echo "no npm on this machine, which the CDK's command comes by; install Node.js"; exit 1; }
	@echo "== installing the CDK's command from infra/package-lock.json"
	@npm ci --prefix infra --no-audit --no-fund --loglevel error
	@touch $@

spark-tools: $(SPARK_STAMP)  ## make .venv-spark, with Spark, for the data pipeline and its tests; needs Java 17

$(SPARK_STAMP): locks/spark.lock $(STAMP)
	@echo "== making $(SPARK_VENV) from locks/spark.lock (Spark is 400 MB)"
	@test -x $(SPARK_VENV)/bin/python || $(PYTHON) -m venv --without-pip $(SPARK_VENV)
	@$(BIN)/uv pip sync --quiet --python $(SPARK_VENV)/bin/python --require-hashes --compile-bytecode locks/spark.lock
	@$(BIN)/uv pip install --quiet --python $(SPARK_VENV)/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

spark35-tools: $(SPARK35_STAMP)  ## make .venv-spark35, with Spark 3.5, for what is to work there too

$(SPARK35_STAMP): locks/spark35.lock $(STAMP)
	@echo "== making $(SPARK35_VENV) from locks/spark35.lock (Spark is 300 MB)"
	@test -x $(SPARK35_VENV)/bin/python || $(PYTHON) -m venv --without-pip $(SPARK35_VENV)
	@$(BIN)/uv pip sync --quiet --python $(SPARK35_VENV)/bin/python --require-hashes --compile-bytecode locks/spark35.lock
	@$(BIN)/uv pip install --quiet --python $(SPARK35_VENV)/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

docs: $(DOCS_STAMP)  ## build the documentation site into build/docs/html; a broken link, or a page that the navigation lacks, is an error
	@$(DOCS_VENV)/bin/python -m tests.make_site

docs-tools: $(DOCS_STAMP)  ## make .venv-docs, with the generator of the documentation site

$(DOCS_STAMP): locks/docs.lock $(STAMP)
	@echo "== making $(DOCS_VENV) from locks/docs.lock"
	@test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv --without-pip $(DOCS_VENV)
	@$(BIN)/uv pip sync --quiet --python $(DOCS_VENV)/bin/python --require-hashes --compile-bytecode locks/docs.lock
	@touch $@

web: $(WEB_STAMP)  ## build the web page from web/src into web/package, which is committed; needs Node.js
	@npm run --silent --prefix web types
	@npm run --silent --prefix web build

web-tools: $(WEB_STAMP)  ## install the tools of the web page from web/package-lock.json

$(WEB_STAMP): web/package-lock.json
	@command -v npm > /dev/null || { echo "no npm on this machine, which the tools of the web page come by; install Node.js"; exit 1; }
	@echo "== installing the tools of the web page from web/package-lock.json"
	@npm ci --prefix web --no-audit --no-fund --loglevel error
	@touch $@

ui-dev: $(WEB_STAMP)  ## serve the page from web/src, reloading what changes, before a `graveler serve` at GRAVELER_SERVER (http://127.0.0.1:8000)
	@npm run --silent --prefix web dev

check-web: $(WEB_STAMP)  ## the web page: formatting, lint, types, unit tests, budgets, and that the committed files are what web/src builds
	@npm run --silent --prefix web check
	@npm run --silent --prefix web test
	@npm run --silent --prefix web compare

web-test-tools: $(WEB_VENV_STAMP) $(WEB_STAMP)  ## make .venv-web, with Playwright, for the stories of the web page; installs Chromium by apt if it is missing

$(WEB_VENV_STAMP): locks/web.lock $(STAMP)
	@test -x /usr/bin/chromium || { echo "== no /usr/bin/chromium, which the stories drive: installing it by apt-get"; \
	    sudo=$$(test "$$(id -u)" = 0 || echo sudo); export DEBIAN_FRONTEND=noninteractive; \
	    $$sudo apt-get update --quiet=2 && $$sudo apt-get install --yes --quiet=2 chromium > /dev/null; }
	@echo "== making $(WEB_VENV) from locks/web.lock"
	@test -x $(WEB_VENV)/bin/python || $(PYTHON) -m venv --without-pip $(WEB_VENV)
	@$(BIN)/uv pip sync --quiet --python $(WEB_VENV)/bin/python --require-hashes --compile-bytecode locks/web.lock
	@$(BIN)/uv pip install --quiet --python $(WEB_VENV)/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

s3-client-tools: $(S3_CLIENTS_STAMP) $(DUCKDB_S3_STAMP) $(S3_JAVASCRIPT_STAMP)  ## make the environments of the S3 clients that tests run against a gateway; installs fuse3 by apt if it is missing
	@test -x /usr/bin/fusermount3 || ! test -c /dev/fuse || { echo "== no /usr/bin/fusermount3, which rclone mount needs: installing it by apt-get"; \
	    sudo=$$(test "$$(id -u)" = 0 || echo sudo); export DEBIAN_FRONTEND=noninteractive; \
	    $$sudo apt-get update --quiet=2 && $$sudo apt-get install --yes --quiet=2 fuse3 > /dev/null; }

$(S3_CLIENTS_STAMP): locks/s3-clients.lock $(STAMP)
	@echo "== making $(S3_CLIENTS_VENV) from locks/s3-clients.lock"
	@test -x $(S3_CLIENTS_VENV)/bin/python || $(PYTHON) -m venv --without-pip $(S3_CLIENTS_VENV)
	@$(BIN)/uv pip sync --quiet --python $(S3_CLIENTS_VENV)/bin/python --require-hashes locks/s3-clients.lock
	@touch $@

$(DUCKDB_S3_STAMP): locks/duckdb-s3.lock $(STAMP)
	@echo "== making $(DUCKDB_S3_VENV) from locks/duckdb-s3.lock"
	@test -x $(DUCKDB_S3_VENV)/bin/python || $(PYTHON) -m venv --without-pip $(DUCKDB_S3_VENV)
	@$(BIN)/uv pip sync --quiet --python $(DUCKDB_S3_VENV)/bin/python --require-hashes locks/duckdb-s3.lock
	@touch $@

table-client-tools: $(TABLE_CLIENTS_STAMP)  ## make .venv-table-clients, with the clients of Iceberg tables that tests run against the catalog

$(TABLE_CLIENTS_STAMP): locks/table-clients.lock $(STAMP)
	@echo "== making $(TABLE_CLIENTS_VENV) from locks/table-clients.lock"
	@test -x $(TABLE_CLIENTS_VENV)/bin/python || $(PYTHON) -m venv --without-pip $(TABLE_CLIENTS_VENV)
	@$(BIN)/uv pip sync --quiet --python $(TABLE_CLIENTS_VENV)/bin/python --require-hashes locks/table-clients.lock
	@touch $@

$(S3_JAVASCRIPT_STAMP): tests/gateway/clients/javascript/package-lock.json
	@command -v npm > /dev/null || { echo "no npm on this machine, which AWS's SDK for JavaScript comes by; install Node.js"; exit 1; }
	@echo "== installing AWS's SDK for JavaScript from $<"
	@npm ci --prefix $(dir $<) --no-audit --no-fund --loglevel error
	@touch $@

test-web: web-test-tools  ## the stories of the web page, in a browser; traces of those that fail are in build/traces
	@$(WEB_VENV)/bin/python -m pytest -n 2 --durations=5 tests/web

screenshots: web-test-tools  ## write the pictures of the web page in docs/pictures again
	@$(WEB_VENV)/bin/python -m tests.web.take_pictures docs/pictures

layer: $(DEPLOY_STAMP)  ## build the Lambda layer; ARCHITECTURE=x86_64 for the other one
	@$(DEPLOY_VENV)/bin/python -m infra.layer --architecture $(ARCHITECTURE)

dist: setup  ## build the wheel and the sdist into dist/
	@rm -rf dist
	@$(BIN)/python -m hatchling build --directory dist

spark-package: setup  ## package graveler for Spark on a cluster, as EMR Serverless wants it; ARCHITECTURE=x86_64 for the other one
	@$(BIN)/python -m infra.spark_package --architecture $(ARCHITECTURE)

lock:  ## pin the newest versions that fit pyproject.toml, without any registry address
	@echo uv | $(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 \
	    - -o locks/uv.lock
	@$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 \
	    --extra dev --extra clients pyproject.toml -o locks/dev.lock
	@$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 \
	    --extra fsspec --constraint locks/dev.lock pyproject.toml <(printf '%s\n' hatchling 'duckdb>=1.3' 'pyiceberg[pyarrow]>=0.12') -o locks/demo.lock
	@$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --python-version 3.13 \
	    --group deploy -o locks/deploy.lock
	@$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 \
	    --group docs -o locks/docs.lock
	@$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 \
	    --group web --extra server --extra arrow --constraint locks/dev.lock pyproject.toml <(echo hatchling) -o locks/web.lock
	@$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 \
	    --extra dev --extra clients --extra spark --extra connect --constraint locks/dev.lock --constraint <(echo "pyspark==$(EMR_SPARK)") \
	    pyproject.toml -o locks/spark.lock
	@$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 \
	    --extra aws --extra remote --constraint locks/dev.lock pyproject.toml <(printf '%s\n' \
	    'pyspark>=3.5,<3.6' 'pyarrow>=18' 'pandas>=2.3' hatchling pytest hypothesis) -o locks/spark35.lock
	@$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 \
	    --group s3-clients -o locks/s3-clients.lock
	@$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 \
	    --group duckdb-s3 -o locks/duckdb-s3.lock
	@$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 \
	    --group table-clients -o locks/table-clients.lock
	@for recipe in airflow dagster dask datasets dbt pytorch zarr; do \
	    echo hatchling | $(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 \
	        pyproject.toml - --group recipe-$$recipe -o docs/recipes/locks/$$recipe.lock || exit 1; \
	done

# Tests that need a full deployment, or an environment of their own, are marked "ci", and run in `make test-all`.
MARKED ?= not ci
# Many tests wait for a process, a server or a sync, so a third worker shortens a run on two cores by a tenth.
WORKERS ?= 3
PYTEST := -m pytest -n $(WORKERS) --durations=10 --hypothesis-seed=$(SEED)

test: setup spark-tools  ## the promises of each room, in 15 to 19 minutes on two idle cores; SEED=n for another run of the random ones
	@$(SPARK_VENV)/bin/python $(PYTEST) -n 2 --dist loadfile -m '$(MARKED)' tests/spark
	@$(BIN)/python $(PYTEST) -m '$(MARKED)' --ignore=tests/spark --ignore=tests/web tests

test-deployed: setup deploy-tools  ## the stacks and their rights, and the story of a lake in a full deployment
	@$(BIN)/python $(PYTEST) $(addprefix --ignore=tests/infra/test_,acceptance.py ingest.py layer.py operations.py) tests/infra

test-all: setup spark-tools deploy-tools s3-client-tools table-client-tools test-spark35 test-each  ## all tests, with Spark 3.5, every Python here and a full deployment
	@$(MAKE) --no-print-directory test MARKED=

test-spark35: setup spark35-tools  ## what is to work on Spark 3.5 too; TESTS=tests/spark for all of them there
	@$(SPARK35_VENV)/bin/python -m pytest -p no:cacheprovider --hypothesis-seed=$(SEED) $(or $(TESTS),@tests/spark/on_spark35.txt)

test-newest:  ## the engine's tests on Python 3.13, which Lambda runs, if there is one here; without the searches, and the adapters, which functions use there
	@if [ -z "$(NEWEST)" ]; then echo "skipped: no Python 3.13 on this machine, so the engine is not tested on it"; exit 0; fi; \
	$(MAKE) --no-print-directory VENV=.venv-newest PYTHON=$(NEWEST) setup; \
	.venv-newest/bin/python -m pytest -n 2 -p no:cacheprovider --hypothesis-seed=$(SEED) \
	    -m 'not ci and not search' $(ROOMS)

test-each:  ## the engine's tests, and those of the installation, on each Python from 3.12 to 3.14 that is here
	@for minor in 12 13 14; do \
	    python=$$(python3.$$minor -c 'import sys; print(sys.executable)' 2>/dev/null || \
	        { pyenv versions --bare 2>/dev/null | grep "^3\.$$minor\." | tail -n 1 | xargs -r pyenv prefix | sed 's|$$|/bin/python|'; } || true); \
	    if [ -z "$$python" ]; then echo "skipped: no Python 3.$$minor on this machine"; continue; fi; \
	    $(MAKE) --no-print-directory VENV=.venv-3.$$minor PYTHON=$$python setup; \
	    .venv-3.$$minor/bin/python -m pytest -n 2 -p no:cacheprovider --hypothesis-seed=$(SEED) \
	        -m 'not ci and not search' $(ROOMS) tests/installation || exit 1; \
	done

REGION ?=
ACCEPTANCE ?=

acceptance: setup deploy-tools spark-tools  ## deploy to an AWS account, check that it does what it promises, remove it, report; REGION=eu-central-1; costs money
	@test -n "$(REGION)" || { echo "which region? make acceptance REGION=eu-central-1"; exit 2; }
	@$(BIN)/python -m infra.acceptance --region '$(REGION)' $(ACCEPTANCE)

SOAKED := $(addprefix tests/,aws history ingest lake operations retention tree api functions/test_killed.py infra/test_ingest.py sdk/test_files.py server/test_killed_workers.py server/test_serve.py storage/test_living_writers.py storage/test_sharing.py table_format clients/test_schemathesis.py gateway/campaigns gateway/clients/test_many_writers.py gateway/run/test_killed_runs.py)

soak: soak-spark soak-tests soak-recipes soak-mutations  ## the long campaigns: faults, interleavings, processes, merges, histories

soak-spark soak-tests: export GRAVELER_SCHEDULES ?= 20000
soak-spark: export GRAVELER_STREAM_KILLS ?= 50
soak-spark: export GRAVELER_FEED_KILLS ?= 30
soak-spark: export GRAVELER_SPARK_HISTORIES ?= 300
soak-spark: export GRAVELER_SPARK_KILLS ?= 200
soak-spark soak-tests: export GRAVELER_SOAK_SECONDS ?= 60
soak-spark soak-tests: export GRAVELER_MERGE_CASES ?= 200000
soak-spark soak-tests: export GRAVELER_MERGES ?= 20000
soak-spark soak-tests: export GRAVELER_TABLE_MERGES ?= 10000
soak-spark soak-tests: export GRAVELER_TABLE_HISTORIES ?= 10000
soak-spark soak-tests: export GRAVELER_HISTORIES ?= 40000
soak-spark soak-tests: export GRAVELER_EXAMPLES ?= 2000
soak-spark soak-tests: export GRAVELER_FAULTS ?= 400
soak-spark soak-tests: export GRAVELER_WHOLE ?= 1
soak-spark soak-tests: export GRAVELER_UNIVERSE ?= 9
soak-spark soak-tests: export GRAVELER_REQUESTS ?= 300
soak-spark soak-tests: export GRAVELER_REQUESTS_AT_ONCE ?= 250
soak-spark soak-tests: export GRAVELER_FUZZ_EXAMPLES ?= 200
soak-spark soak-tests: export GRAVELER_PATCH_COMMITS ?= 4000
soak-spark soak-tests: export GRAVELER_MEMORY_RECORDS ?= 3000000
soak-spark soak-tests: export GRAVELER_INGEST_EVENTS ?= 4000
soak-spark soak-tests: export GRAVELER_EXECUTIONS ?= 10000
soak-spark soak-tests: export GRAVELER_S3_COMMITS ?= 50
soak-spark soak-tests: export GRAVELER_RUN_KILLS ?= 200
soak-spark soak-tests: export GRAVELER_SERVE_KILLS ?= 50
soak-spark soak-tests: export GRAVELER_GATEWAY_FAULTS ?= 2000

soak-spark: setup spark-tools  ## the part of `make soak` on Spark 4, and all tests of Spark on 3.5 too
	@$(SPARK_VENV)/bin/python -m pytest -v -n 2 --dist loadfile --hypothesis-seed=$(SEED) tests/spark
	@$(MAKE) --no-print-directory test-spark35 TESTS=tests/spark

soak-tests: setup deploy-tools  ## the part of `make soak` in the other rooms whose tests have long forms
	@$(BIN)/python -m pytest -v -n 2 --durations=40 --hypothesis-seed=$(SEED) $(SOAKED)

soak-recipes: setup  ## the part of `make soak` with the recipes of docs/recipes that need other packages, each in an environment from its lock file; 5 GB
	@$(BIN)/python -m pytest -v tests/recipes/soak_environments.py

soak-mutations: setup spark-tools  ## the part of `make soak` that removes each line that keeps a promise; a test has to fail
	@$(BIN)/python -m tests.mutations

openapi: setup  ## write docs/openapi.json again, from the routes
	@$(BIN)/python -m graveler.api.openapi docs/openapi.json

check: setup spark-tools  ## formatting, lint, strict types, import rules, counts of the code, patterns that take long
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(SPARK_VENV)/bin/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.count_house --check
	@$(BIN)/python -m graveler.api.openapi --check docs/openapi.json
	@$(BIN)/python -m pytest -q -p no:cacheprovider tests/security/test_patterns.py

quick: setup  ## in less than a minute: formatting, lint, types of what changed, and the tests that tell most; without Java
	@$(BIN)/python -m tests.quick

count: setup  ## counts of the code beside the wanted figures; WRITE=1 writes those that only may fall to tests/house.toml
	@$(BIN)/python -m tests.count_house $(if $(WRITE),--write)

format: setup  ## mend formatting and what ruff can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup  ## measure on 1.6 million real paths, in the library and over HTTP; ROWS=regex for some of the library, BENCH="--write" to keep the table
	@$(BIN)/python -m bench $(if $(ROWS),--parts library --rows '$(ROWS)') $(BENCH)

demo: $(DEMO_STAMP)  ## the main job on real input: import, branch, change, merge, time travel; with the plain installation
	@$(DEMO_VENV)/bin/graveler demo

$(DEMO_STAMP): locks/demo.lock pyproject.toml
	@echo "== making $(DEMO_VENV) from locks/demo.lock"
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("graveler needs Python 3.11 or newer, and $(PYTHON) is %d.%d; name another one: make $(MAKECMDGOALS) PYTHON=python3.12" % sys.version_info[:2])'
	@test -x $(DEMO_VENV)/bin/python || $(PYTHON) -m venv $(DEMO_VENV) || { rm -rf $(DEMO_VENV); exit 1; }
	@test -x $(DEMO_VENV)/bin/uv || $(DEMO_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/uv.lock
	@$(DEMO_VENV)/bin/uv pip install --quiet --python $(DEMO_VENV)/bin/python --require-hashes --compile-bytecode -r locks/demo.lock
	@$(DEMO_VENV)/bin/uv pip install --quiet --python $(DEMO_VENV)/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

demo-spark: setup spark-tools  ## the data pipeline on real files: import, a dataset on a branch, merge, time travel, a load refused, a stream resumed after a kill
	@$(SPARK_VENV)/bin/python -m graveler.spark.demo

clean:  ## remove what the targets made
	rm -rf $(VENV) $(DEMO_VENV) .venv-3.* .venv-newest $(S3_CLIENTS_VENV) $(DUCKDB_S3_VENV) $(TABLE_CLIENTS_VENV) $(DEPLOY_VENV) $(DOCS_VENV) $(WEB_VENV) $(SPARK_VENV) $(SPARK35_VENV) infra/node_modules $(S3_JAVASCRIPT) build cdk.out demo-lake demo-lake-spark .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
