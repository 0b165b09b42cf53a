# The commands of this project. `make help` lists them.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# More than there are cores: many tests wait, for other processes and for leases to end.
WORKERS ?= 4

# The tests start some thousand processes: what one has compiled the next shall find, whatever the shell has set.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test check soak bench clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## run the demonstration
	$(BIN)/python examples/demo.py

test: check ## all checks, then all tests over real servers, in parallel
	$(BIN)/python tools/provision.py servers
	$(BIN)/python tools/check_queries.py
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

check: $(READY) ## lint, format, types and layers; no server is started
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python tools/check_layers.py

soak: $(READY) ## the long and random runs
	$(BIN)/python tools/provision.py servers
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m soak --timeout=3600

bench: $(READY) ## every benchmark, one after the other
	$(BIN)/python tools/provision.py servers
	@set -e; for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python "$$file"; done

clean: ## remove the environment and everything that was made
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find src tests tools examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	test -x $(BIN)/pip || $(PYTHON) tools/provision.py venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@
