# Two commands for a newcomer: `make demo` and `make test`. Each sets up what it needs.
.PHONY: demo test lint setup down

PY = .venv/bin/python

setup: .venv/.complete

.venv/.complete: requirements/dev.txt pyproject.toml .ci/bootstrap
	@.ci/bootstrap

demo: setup
	@$(PY) -m tests.lab.demo

test: setup
	@.venv/bin/pytest

lint: setup
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy

down: setup
	@.venv/bin/b200 lab down
