# `make` lists the targets. Each works on a fresh clone and is quick when its work is done already.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo setup test lint format docs bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.core ## print the tables of a sample report, then profile a real training loop on this CPU
	@$(BIN)/nvtrace demo
	@printf '\n%s\n\n' "And a REAL program, recorded as it trains on this machine's CPU:"
	@$(BIN)/nvtrace run -f -o demo-output/numpy_train.sqlite examples/numpy_train.py 2>&1

setup: $(VENV)/.dev ## install nvtrace for development into .venv

test: lint docs ## check style, types and documentation, then run every test
	@NVTRACE_INSTALL_TOOLS=1 $(BIN)/pytest -n 2 --dist worksteal

lint: $(VENV)/.dev ## check style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

format: $(VENV)/.dev ## lay out the code and sort the imports
	@$(BIN)/ruff check --quiet --fix --select I .
	@$(BIN)/ruff format .

docs: $(VENV)/.dev ## build the documentation into docs/_build
	@$(BIN)/sphinx-build -q -W --keep-going docs docs/_build
	@echo docs/_build/index.html

bench: $(VENV)/.dev ## measure nvtrace beside its goals and its peers (15 minutes)
	@$(BIN)/python benchmarks

clean: ## remove what the other targets made
	@rm -rf $(VENV) .tools build dist docs/_build demo-output ./*.egg-info
	@rm -f nvtrace/native/*.so
	@rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/.core: pyproject.toml setup.py $(wildcard nvtrace/native/*.c)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -qq --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@$(BIN)/python -m pip install -qq --group test --group lint --group docs
	@touch $@
