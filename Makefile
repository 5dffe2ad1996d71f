# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# What a person types; `make help` lists it. Each target is one call of a program in this repository.

NAME ?= local
OS ?= debian13
COMPUTE ?= 2
GPUS ?= 0
CONTROLLERS ?= 1

# System containers need root; everything else runs as whoever calls make.
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
LOCAL := $(SUDO) .venv/bin/python -m local

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: cluster
cluster: ## A Slurm cluster on this machine, up to a finished job: OS=debian13|debian12 COMPUTE=2 GPUS=0 CONTROLLERS=1 NAME=local
	@local/bootstrap
	@$(LOCAL) up --name '$(NAME)' --os '$(OS)' --compute '$(COMPUTE)' --gpus '$(GPUS)' --controllers '$(CONTROLLERS)'

.PHONY: destroy
destroy: ## Remove the local cluster and all its data: NAME=local
	@$(LOCAL) down --name '$(NAME)'

.PHONY: shell
shell: ## Log in to the local cluster as alice: NAME=local
	@$(LOCAL) shell --name '$(NAME)'

.PHONY: status
status: ## Nodes and services of the local cluster: NAME=local
	@$(LOCAL) status --name '$(NAME)'
