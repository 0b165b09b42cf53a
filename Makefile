# The commands of this project. `make help` lists them.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
READY := .venv/.ready
# More than there are cores: many tests wait, for other processes and for leases to end.
WORKERS ?= 6
# Thousands of databases are made and removed: on a disk much of the time goes into their files.
IN_MEMORY := $(BIN)/python tools/in_memory.py
# What the tests need beforehand takes one core each: mypy has one, the queries and the collection have the other.
MAKEFLAGS += --jobs=2

# The tests start some thousand processes: what one has compiled the next shall find, whatever the shell has set.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test servers queries collected check soak bench clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## run the demonstration
	$(BIN)/python examples/demo.py

test: check queries collected ## all checks, then all tests over real servers, in parallel
	$(IN_MEMORY) $(BIN)/pytest -n $(WORKERS) --dist worksteal

servers: $(READY)
	$(BIN)/python tools/provision.py servers

queries: servers
	$(BIN)/python tools/check_queries.py

# pytest rewrites the assertions of every test module, and keeps what it wrote: here once, and not in every worker.
collected: $(READY)
	$(BIN)/pytest --collect-only -qq > .venv/collected || { cat .venv/collected; exit 1; }

check: $(READY) ## lint, format, types and layers; no server is started
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python tools/check_layers.py

soak: servers ## the long and random runs
	$(IN_MEMORY) $(BIN)/pytest -n $(WORKERS) --dist worksteal -m soak --timeout=3600

bench: servers ## every benchmark, one after the other
	@set -e; for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python "$$file"; done

clean: ## remove the environment and everything that was made
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find src tests tools examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# The library alone: all that its users install, and the demonstration needs.
$(INSTALLED): pyproject.toml
	test -x $(BIN)/pip || $(PYTHON) tools/provision.py venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --editable .
	touch $@

# With what the tests and checks need; after the other, since two installations at once would be in each other's way.
$(READY): $(INSTALLED)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev]'
	touch $@
