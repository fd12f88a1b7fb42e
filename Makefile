# Everything is run from here. Each target makes the environment it needs in .venv and leaves it for the next time.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Python 3.11 where there is one, since constraints.txt was resolved with it; else anything newer.
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13 python3.14; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$python && break; done)
BIN := .venv/bin
# A module is compiled when it is first imported: most of 15,000 never are, and all take most of a minute.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

DEMO_POLICY := policies/flow-with-drawn-times.yaml
DEMO_LOG := examples/logs/hospital.xes.gz
DEMO_LEDGER := demo-release.db
DEMO_KEYS := .venv/demo-keys
# As it stands: whoever has this checkout can type it again, whatever keys are trusted here.
DEMO_VERIFY := $(BIN)/cloakwork verify demo-release --public-key $(DEMO_KEYS)/signing-key.pub.pem

# How many test processes; `make test WORKERS=0` runs them in one, `make test TESTS=tests/cli` only some.
WORKERS ?= auto
# Half of the tests to each of two processes, neighbours together, so that what a file's tests share is made once; who is
# done first takes over.
SHARED_OUT := --numprocesses $(WORKERS) --dist worksteal
TESTS ?=

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

.PHONY: demo
demo: export CLOAKWORK_HOME := $(CURDIR)/$(DEMO_KEYS)
demo: .venv/.core ## anonymize the example hospital log into demo-release/ and verify it
	@rm -rf demo-release $(DEMO_LEDGER)*
	@echo "cloakwork apply $(DEMO_POLICY) $(DEMO_LOG) --out demo-release"
	@$(BIN)/cloakwork apply $(DEMO_POLICY) $(DEMO_LOG) --out demo-release --ledger sqlite:///$(DEMO_LEDGER)
	@echo "$(DEMO_VERIFY)"
	@env -u CLOAKWORK_HOME $(DEMO_VERIFY)
	@echo "The release lies in demo-release/; what must never be published is in demo-release/internal/."
	@echo "Verify it again: $(DEMO_VERIFY)"

# Commands that tests start need not compile every module again.
.PHONY: test
test: export PYTHONDONTWRITEBYTECODE :=
test: .venv/.test ## run the whole test suite
	@$(BIN)/python -m pytest $(SHARED_OUT) $(TESTS)

.PHONY: matrix
matrix: ## run the suite once for each of Python 3.11 to 3.14 that is found
	@.ci/matrix $(SHARED_OUT) $(TESTS)

.PHONY: docs
docs: .venv/.test ## build the documentation site into site/, without network
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "The site lies in site/: open site/index.html."

.PHONY: install
install: .venv/.all ## install every extra; the tests need all but a few of them

.PHONY: bench
bench: .venv/.test ## run the benchmarks
	@set -e; for bench in $(wildcard benchmarks/*.py); do echo "== $$bench"; $(BIN)/python "$$bench"; done

.PHONY: lint
lint: .venv/.test ## check style, types and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.PHONY: clean
clean: ## remove the environment and everything that was made
	@rm -rf .venv .venv-3.* demo-release $(DEMO_LEDGER)* dist build site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find engine tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: each says that .venv holds at least that much of pyproject.toml, so that a second run installs nothing.

.venv/.made:
	@if [[ -z "$(PYTHON)" ]]; then echo "make: no Python 3.11 or newer found; name one: make PYTHON=/path/to/python3" >&2; exit 1; fi
	@rm -rf .venv
	@"$(PYTHON)" -m venv .venv
	@touch $@

.venv/.core: .venv/.made pyproject.toml constraints.txt
	@echo "installing Cloakwork into .venv"
	@$(INSTALL) --editable .
	@touch $@

.venv/.test: .venv/.made pyproject.toml constraints.txt
	@echo "installing Cloakwork and what its tests need into .venv (torch and Spark among it: some 3 GB)"
	@$(INSTALL) --editable '.[dev]'
	@touch $@ .venv/.core

.venv/.all: .venv/.made pyproject.toml constraints.txt
	@echo "installing Cloakwork with every extra into .venv (torch and Spark among it: some 3 GB)"
	@$(INSTALL) --editable '.[all]'
	@touch $@ .venv/.test .venv/.core
