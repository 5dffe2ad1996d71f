# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# What a person types; `make help` lists it. Each target is one call of a program in this repository.

NAME ?= local
OS ?= debian13
COMPUTE ?= 2
GPUS ?= 0
CONTROLLERS ?= 1
PYXIS ?= 0

# System containers need root; everything else runs as whoever calls make.
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo --preserve-env=TRAINWRIGHT_ARTIFACTS,TRAINWRIGHT_UBUNTU_MIRROR,TRAINWRIGHT_KEEP,TRAINWRIGHT_ACCELERATOR,TRAINWRIGHT_TORCH_INDEX,TRAINWRIGHT_SCREENSHOTS)
LOCAL := $(SUDO) .venv/bin/python molecule/driver

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: cluster
cluster: ## A Slurm cluster on this machine, up to a finished job: OS=debian13|debian12|ubuntu2404 COMPUTE=2 GPUS=0 CONTROLLERS=1 PYXIS=0 NAME=local
	@molecule/driver/bootstrap
	@$(LOCAL) up --name '$(NAME)' --os '$(OS)' --compute '$(COMPUTE)' --gpus '$(GPUS)' --controllers '$(CONTROLLERS)' --pyxis '$(PYXIS)'

.PHONY: destroy
destroy: ## Remove the local cluster and all its data: NAME=local
	@$(LOCAL) down --name '$(NAME)'

.PHONY: shell
shell: ## Log in to the local cluster as alice: NAME=local
	@$(LOCAL) shell --name '$(NAME)'

.PHONY: status
status: ## Nodes and services of the local cluster: NAME=local
	@$(LOCAL) status --name '$(NAME)'

.PHONY: dev
dev: ## What the tests and Molecule need on this machine: packages and .venv
	@molecule/driver/bootstrap --dev

PYTEST := .venv/bin/python -m pytest
# What is fast and finds most comes first and by itself: it computes on every core, so beside the clusters it would
# be done later and slow them down by as much. Then the two clusters, the virtual machine and the rest each have a
# process: they wait much of their time. 5: ARGS chose none of them.
ALONE := tests/unit

.PHONY: test
test: ## Every test, as CI runs them: ARGS='-k word'
	@molecule/driver/bootstrap --dev
	@$(SUDO) $(PYTEST) $(ALONE) -n auto --dist worksteal $(ARGS) || [ $$? = 5 ]
	@$(SUDO) $(PYTEST) tests --ignore=$(ALONE) -n 4 --dist loadscope $(ARGS) || [ $$? = 5 ]

.PHONY: unit
unit: ## The unit tests, in seconds: ARGS='-k word'
	@molecule/driver/bootstrap --dev
	@$(PYTEST) tests/unit $(ARGS)

.PHONY: lint
lint: ## ansible-lint, yamllint, ruff and mypy
	@molecule/driver/bootstrap --dev
	@$(PYTEST) tests/lint $(ARGS)

.PHONY: soak
soak: ## Every test with its full number of samples; takes hours: ARGS='-k word'
	@molecule/driver/bootstrap --dev
	@$(SUDO) env TRAINWRIGHT_SOAK=1 $(PYTEST) tests $(ARGS)

.PHONY: docs
docs: ## Write docs/reference and the roles' READMEs from their documentation
	@molecule/driver/bootstrap --dev
	@.venv/bin/python docs/generate.py

.PHONY: docsite
docsite: ## The documentation site, as HTML in .cache/docsite
	@molecule/driver/bootstrap --dev
	@PATH="$$PWD/.venv/bin:$$PATH" docs/docsite/build .cache/docsite

# uv resolves for every Python and machine at once, which pip cannot; it is needed for nothing else. Both locks come from
# one resolution, so that .venv is the same with and without what the tests need.
LOCK := .cache/lock/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command 'make lock' --upgrade

.PHONY: lock
lock: ## Write requirements.lock and requirements-dev.lock anew from requirements.txt and requirements-dev.txt
	@python3 -m venv .cache/lock
	@.cache/lock/bin/pip install --quiet --disable-pip-version-check --upgrade uv
	@$(LOCK) requirements-dev.txt --output-file requirements-dev.lock
	@$(LOCK) requirements.txt --constraints requirements-dev.lock --output-file requirements.lock

SCALE ?= 2

.PHONY: bench
bench: ## Time site.yml against a shell script on fresh clusters: SCALE='2 4 8' OS=debian13
	@molecule/driver/bootstrap --dev
	@$(SUDO) .venv/bin/python tests/benchmarks/bench.py --scale $(SCALE) --os '$(OS)' $(ARGS)
