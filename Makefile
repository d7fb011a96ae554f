# The README's two commands are `make demo` and `make test`; the rest is for those who change things.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 3

.PHONY: setup demo test check bench images breaking protos format clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[transformers,openai,captions,inspect,otel,postgres,s3,dev]'
	touch $(STAMP)

# The main job on the model that comes along: no endpoint, no data, no network. First without images, to compare.
DEMO := --task vstar_bench --task marvel --task VisualPuzzles_direct --synthetic --limit 40
demo: setup
	$(BIN)/orchestrator eval $(DEMO) --blind --quiet --run runs/demo-blind
	$(BIN)/orchestrator eval $(DEMO) --run runs/demo
	$(BIN)/orchestrator report runs/demo runs/demo-blind

test: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/buf lint protos
	$(BIN)/buf format --diff --exit-code protos
	$(BIN)/python -m pytest -p no:xdist tests/protos/test_contracts.py

bench: setup
	$(BIN)/python -m bench

images:
	docker/build

# Whether the contracts still say what they said at a commit: make breaking AGAINST=v0.1.0
AGAINST ?= main
breaking: setup
	$(BIN)/buf breaking protos --against '.git#ref=$(AGAINST),subdir=protos'

protos: setup
	$(BIN)/buf format --write protos
	$(BIN)/python protos/generate.py

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
