# The door to everything: `make` lists the targets. Only python3 with venv, make and git are needed.

SHELL := /bin/sh
# A Python to make .venv with; empty: the first of python3, python3.13 ... python3.10 that fits.
PYTHON ?=
# What `make verify` judges; another interpreter is judged as it is, nothing is installed into it.
TARGET ?= .venv/bin/python
# More for pytest and for `envkit verify`, for example PYTEST="-k allocator".
PYTEST ?=
# Tests run in this many processes; they depend on no order.
PROCESSES ?= 2
VERIFY ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint tests/constraints.txt

.DEFAULT_GOAL := help
.PHONY: help verify test browser lint types contracts docs-check docs site wheel-test clean torch
.DELETE_ON_ERROR:

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

verify: $(VENV)/.envkit ## Set up .venv (envkit, and a torch that fits this machine) and judge this machine
ifeq ($(TARGET),$(BIN)/python)
	@$(BIN)/python tools/torch_for_this_machine.py
endif
	@echo "+ envkit verify --python $(TARGET) $(VERIFY)"
	@$(BIN)/envkit verify --python $(TARGET) $(VERIFY)

test: $(VENV)/.test torch ## Set up .venv and run the tests; PYTEST="-k allocator" runs some
	$(BIN)/python -m pytest -n $(PROCESSES) $(PYTEST)

browser: $(VENV)/.test ## Install what drives a chromium, for tests/browser
	@$(PIP) --group browser

lint: $(VENV)/.lint ## Check style and formatting (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.lint $(VENV)/.test ## Check types (mypy --strict) and the child's Python 3.8 syntax (vermin)
	$(BIN)/mypy
	$(BIN)/vermin --target=3.8- --violations --no-tips --eval-annotations envkit/probes/child

contracts: $(VENV)/.lint ## Check which part may import which (import-linter)
	$(BIN)/lint-imports

docs-check: $(VENV)/.envkit ## Check links, commands and --help texts of the documentation, and strings no file may hold
	$(BIN)/python tools/check_docs.py
	$(BIN)/python tools/docs_navigation.py
	$(BIN)/python tools/cli_reference.py
	$(BIN)/python tools/remedy_pages.py
	$(BIN)/python tools/forbidden_strings.py

docs: $(VENV)/.envkit ## Write the generated pages of the documentation
	$(BIN)/python tools/cli_reference.py --write
	$(BIN)/python tools/remedy_pages.py --write
	$(BIN)/python tools/allocated_reserved_page.py --write
	$(BIN)/python tools/articles_checked.py --write
	$(BIN)/python tools/oom_remedy_page.py --write
	$(BIN)/python tools/docs_navigation.py --write

site: $(VENV)/.site ## Build the documentation as a site into build/site
	$(BIN)/python tools/build_site.py

wheel-test: ## Build the wheel, install it into a clean environment and run the tests against it
	tools/test_wheel.sh $(PYTHON)

clean: ## Remove .venv and everything built
	rm -rf $(VENV) .venv-wheel build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: a second run does nothing while what they depend on is unchanged.
$(VENV)/.made:
	@tools/make_venv.sh $(VENV) $(PYTHON)
	@touch $@

$(VENV)/.envkit: $(VENV)/.made pyproject.toml tests/constraints.txt envkit/__init__.py
	@echo "envkit: into $(VENV), from this folder (editable)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.envkit
	@echo "test tools: into $(VENV), versions of tests/constraints.txt"
	@$(PIP) --group test --editable '.[lock]'
	@touch $@

$(VENV)/.site: $(VENV)/.envkit
	@echo "mkdocs: into $(VENV), version of tests/constraints.txt"
	@$(PIP) --group docs
	@touch $@

$(VENV)/.lint: $(VENV)/.envkit
	@echo "lint tools: into $(VENV), versions of tests/constraints.txt"
	@$(PIP) --group lint
	@touch $@

torch: $(VENV)/.envkit
	@$(BIN)/python tools/torch_for_this_machine.py
