# `make bench` and `make test` are the two that matter: each sets up everything that is missing first.
PYTHON ?= python3
PY := .venv/bin/python

.PHONY: build
build:
	@$(PYTHON) tools/setup_env.py
