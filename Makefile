# Everything happens in .venv; the only needs are make and Python 3.10 or newer.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo install test test-all lint types bench docs clean

help: ## list what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: .venv/installed ## set up, train on the embedded corpus, show topics and their correlations
	$(BIN)/asterism demo

install: .venv/installed-dev ## set up .venv with the package and the developers' tools

test: lint types ## set up, lint, types, tests
	$(BIN)/pytest

test-all: .venv/installed-dev .venv/installed-torch ## the slow tests and those that need extras
	$(BIN)/pytest -m slow
	$(BIN)/pytest tests/engines -k gpu

lint: .venv/installed-dev ## ruff: style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev ## mypy --strict on src/
	$(BIN)/mypy

bench: .venv/installed-bench ## measure, hours; writes benchmarks/results/*.json
	$(BIN)/python benchmarks/foundation.py
	$(BIN)/python benchmarks/quality.py

docs: .venv/installed-docs ## build the documentation into site/
	$(BIN)/mkdocs build --strict

clean: ## remove .venv and everything that was built
	rm -rf .venv site build dist .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

# By its version, which is a build for the CPU: any torch would bring gigabytes of CUDA along.
.venv/installed-torch: | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 triton
	touch $@

.venv/installed-%: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	touch $@
