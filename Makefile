# replview: `make demo` is all that is needed; `make help` lists the rest.

PYTHON ?= python3
BIN := .venv/bin

# make demo PORT=9000 RATE=50 DATA=/tmp/shop, or any options: make demo DEMO_ARGS=--no-workload
DEMO_ARGS ?=
override DEMO_ARGS += $(if $(PORT),--port $(PORT)) $(if $(RATE),--rate $(RATE)) $(if $(DATA),--data '$(DATA)')

# Side by side, each worker with servers of its own: make test PYTEST_WORKERS=0 for one after another.
# Many tests wait for something: more of them than processors.
PYTEST_WORKERS ?= 4
PYTEST_ARGS ?=
override PYTEST_ARGS += -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder
# make test RETRY=1: run tests that failed once more, alone, as CI does.
PYTEST := $(BIN)/$(if $(RETRY),python -m tests.support.retrying,pytest)
# make test-share SHARE=3: another day's.
SHARE ?= today
# make test-versions VERSIONS=12,14
VERSIONS ?= 12,13,14,15,16,17,18
VERSION_TESTS := tests/receiver tests/hostile tests/catalog tests/features/sampling tests/health/test_failover_pair.py \
	tests/crashes/test_failover.py tests/chaos/test_seeds.py
BENCH_ARGS ?=
# make chaos CHAOS_ARGS="--seeds 1-4", or "--seed 7" to repeat one
CHAOS_ARGS ?=

.PHONY: help install install-test demo test test-share test-fast collect lint lock audit bench bench-pages bench-lag bench-spark chaos test-versions spark-artefact histories lakes round-trips wheel screenshots reference clean chromium
.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: .venv/installed ## Create .venv and install replview into it

demo: .venv/installed ## Start everything and a shop to watch; Ctrl-C stops it (PORT= RATE= DATA= DEMO_ARGS=)
	@exec $(BIN)/replview demo $(DEMO_ARGS)

test: install-test chromium ## Run all tests (PYTEST_ARGS= RETRY=1)
	$(PYTEST) $(PYTEST_ARGS)

test-share: install-test chromium ## Run one of seven shares of the tests that CI does not run every time (SHARE= RETRY=1)
	$(PYTEST) --share $(SHARE) -m 'long or own_jvm' $(PYTEST_ARGS)

test-fast: install-test ## Run the quick tests, which need nothing but the store
	$(BIN)/pytest -m "not slow" --hypothesis-profile quick $(PYTEST_ARGS)

test-versions: install-test ## Run what depends on the source's version on PostgreSQL 12 to 18 (VERSIONS= PYTEST_ARGS=)
	@command -v npm >/dev/null || \
		echo "npm is missing: versions that are not on this machine are skipped. Mend it: apt-get install npm"
	REPLVIEW_TEST_SOURCES=$(VERSIONS) $(PYTEST) $(VERSION_TESTS) $(PYTEST_ARGS)

collect: install-test ## Collect all tests, which also compiles them
	@$(BIN)/pytest --collect-only -q | tail -n 1

lint: install-test ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lock: $(BIN)/python ## Resolve requirements/*.lock anew after a change of pyproject.toml (LOCK_ARGS=--upgrade)
	@$(BIN)/python -m tests.shipping.lock $(LOCK_ARGS)

audit: $(BIN)/python ## Ask for known vulnerabilities of all that is locked; found ones fail
	@$(BIN)/python -m tests.audit

bench: .venv/installed-bench ## Measure, and compare with the bars (BENCH_ARGS=)
	$(BIN)/python -m tests.benchmarks $(BENCH_ARGS)

bench-pages: install-test ## Measure every page over ten million changes: about 12 minutes (BENCH_ARGS=)
	$(BIN)/python -m tests.benchmarks.pages $(BENCH_ARGS)

bench-lag: install-test ## Measure sampling, lag pages and alerts at their size: about 5 minutes (BENCH_ARGS=)
	$(BIN)/python -m tests.benchmarks.lag $(BENCH_ARGS)

bench-spark: install-test ## Measure the Spark pipeline over two million changes: about 5 minutes (BENCH_ARGS=)
	$(BIN)/python -m tests.benchmarks.spark $(BENCH_ARGS)

chaos: install-test ## Prove the record true through faults: 20 seeds, about 40 minutes (CHAOS_ARGS=)
	$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

# make histories SEED=200 HISTORIES=100 for others, or SEEDS="401 7:2,5:0-63" to repeat those that a failure names
histories: install-test ## Hold every answer against 1,000 random histories: about 25 minutes (HISTORIES= SEED= SEEDS=)
	HISTORIES=$(or $(HISTORIES),1000) $(BIN)/pytest -n $(PYTEST_WORKERS) tests/store/read/test_histories.py

round-trips: install-test ## Hold 50 random exports in pieces against the record (ROUND_TRIPS= SEED=)
	ROUND_TRIPS=$(or $(ROUND_TRIPS),50) $(BIN)/pytest -n $(PYTEST_WORKERS) tests/spark/test_round_trip.py

lakes: install-test ## Hold the tables of lakes against 50 random histories, in both formats: hours (ROUND_TRIPS= SEED= SEEDS=)
	ROUND_TRIPS=$(or $(ROUND_TRIPS),50) $(BIN)/pytest -n $(PYTEST_WORKERS) tests/spark/lake/test_round_trip.py

spark-artefact: .venv/installed ## Build what spark-submit takes along: build/replview-spark.zip
	@$(BIN)/python -m replview.spark.artefact build

wheel: .venv/installed ## Build the wheel, which holds all that replview needs, the sdist, and their SBOM into dist/
	@$(BIN)/python -m hatchling build
	@$(BIN)/python -m tests.shipping.lock --sbom dist

screenshots: install-test chromium ## Take the pictures of docs/images anew, from a demo: about 4 minutes
	$(BIN)/python -m tests.screenshots

reference: install-test ## Write the pages of docs/reference anew, from the commands and settings
	$(BIN)/python -m tests.reference

clean: ## Remove .venv, caches and the demo's data
	@if [ -e .replview/lock ] && ! flock -n .replview/lock true; then \
		echo "a demo is running on .replview: stop it first, with Ctrl-C in its terminal"; exit 1; fi
	@for link in .replview/store .replview/source; do \
		if [ -L $$link ]; then rm -rf "$$(readlink $$link)"; fi; done
	rm -rf .replview .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- installing ------------------------------------------------------------------------------
# A stamp says what is installed, so that the next make is instant. The large [spark] extra is
# not among it: the demo shows its first page without. Nothing is installed whose hash is not in
# requirements/*.lock, of what builds packages neither.

install-test: .venv/installed-test

.venv/installed: pyproject.toml requirements/run.lock requirements/build.lock | $(BIN)/python
	@$(call pip_install,run)

.venv/installed-test: pyproject.toml requirements/test.lock requirements/build.lock | $(BIN)/python
	@$(call pip_install,test)
	@touch .venv/installed

.venv/installed-bench: pyproject.toml requirements/bench.lock requirements/build.lock | $(BIN)/python
	@$(call pip_install,bench)
	@touch .venv/installed .venv/installed-test

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || \
		{ echo "$(PYTHON) is missing. Mend it: apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "replview needs Python 3.11 or later. Mend it: make PYTHON=python3.11 install"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "python3-venv is missing. Mend it: apt-get install python3-venv"; exit 1; }
	@echo "creating .venv"
	@$(PYTHON) -m venv .venv

# pip_install(lock): names each package as pip comes to it; the whole of what pip said is in a log.
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --no-build-isolation

define pip_install
echo "installing requirements/$(1).lock into .venv; the first time takes about a minute"; \
{ { $(PIP_INSTALL) --require-hashes -r requirements/build.lock && \
    $(PIP_INSTALL) --require-hashes -r requirements/$(1).lock && \
    $(PIP_INSTALL) --no-deps -e .; } 2>&1; \
  echo $$? > .venv/install.status; } | tee .venv/install.log | sed -un 's/^Collecting \([^ ;(<>=~!]*\).*/  \1/p'; \
if [ "$$(cat .venv/install.status)" = 0 ]; then touch $@; else $(say_why_pip_failed); exit 1; fi
endef

define say_why_pip_failed
if grep -q 'No space left on device' .venv/install.log; then \
	echo "the disk is full. Mend it: free about 1 GB and run make again"; \
elif grep -qE 'NewConnectionError|Temporary failure in name resolution|Read timed out' .venv/install.log; then \
	echo "pip cannot reach its package index. Mend it: check the network and 'pip config list'"; \
elif grep -qE "gcc|'cc'|cc1|Python\.h|Microsoft Visual" .venv/install.log; then \
	echo "a package must be compiled here and cannot be. Mend it: apt-get install build-essential python3-dev"; \
elif grep -q 'DO NOT MATCH THE HASHES' .venv/install.log; then \
	sed -n 's/^ *\([^ ]*\) from .*:$$/\1 is not the file that was locked./p' .venv/install.log; \
	echo "Do not install it. Mend it: look at where pip takes its packages from ('pip config list')"; \
elif grep -q 'No matching distribution found' .venv/install.log; then \
	sed -n 's/^ERROR: No matching distribution found for \(.*\)/no wheel of \1 for this platform./p' .venv/install.log; \
	echo "Mend it: use CPython 3.11 to 3.13 on x86-64 or arm64 Linux: make PYTHON=python3.11 install"; \
else \
	tail -n 5 .venv/install.log; echo "pip failed; all it said is in .venv/install.log"; \
fi
endef

# --- what the tests need besides -------------------------------------------------------------

chromium:
	@if command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing a browser for the tests"; \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; \
	else \
		echo "a browser for the tests is missing. Mend it: apt-get install chromium"; exit 1; \
	fi >&2
