# The README's two commands are `make demo` and `make test`; the rest is for developers.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 3

# Where Python may not keep its bytecode, each of a thousand processes would compile the product anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo dist test test-all test-weekly test-core test-others check bench gpu equality explained simulate images publish lock breaking protos format clean

# Three sets of dependencies, each with a stamp: the demo's, the tests' and everything. The larger include the smaller.
TESTED := transformers,adapters,media,openai,http,mcp,captions,inspect,otel,postgres,remote,test
EVERYTHING := $(TESTED),dev
define install
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(1)]'
	touch $(2)
endef

$(VENV)/.demo: pyproject.toml constraints.txt
	$(call install,transformers,$(VENV)/.demo)

$(VENV)/.test: pyproject.toml constraints.txt
	$(call install,$(TESTED),$(VENV)/.demo $(VENV)/.test)

$(VENV)/.installed: pyproject.toml constraints.txt
	$(call install,$(EVERYTHING),$(VENV)/.demo $(VENV)/.test $(VENV)/.installed)

setup: $(VENV)/.installed

# An evaluation of the bundled model, without images first, for comparison: no endpoint, no data, no network.
DEMO := --task VisualPuzzles_direct --task marvel --task vstar_bench --synthetic --limit 40
demo: $(VENV)/.demo
	$(BIN)/orchestrator eval $(DEMO) --blind --quiet --run runs/demo-blind
	$(BIN)/orchestrator eval $(DEMO) --run runs/demo
	$(BIN)/orchestrator report runs/demo runs/demo-blind
	@echo "next: $(BIN)/orchestrator view runs"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The wheel, into dist/; needs none of what is installed for the rest.
dist: | $(BIN)/python
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# All tests but those marked "full" or "weekly", in two parts.
MARKED := not full and not weekly
test: test-core test-others

# All tests but those marked "weekly". Those of the browser, the images and the compose file skip where their program is missing: see .ci/tools.
test-all: MARKED := not weekly
test-all: LONG_FIRST := --no-loadscope-reorder
test-all: test-core test-others

# Those that CI leaves out.
test-weekly: MARKED := weekly
test-weekly: test-core test-others

PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(LONG_FIRST) -m "$(MARKED)"

# The core's tests pass where no extension is installed: they run with the extensions hidden from every process.
test-core: export PYTHONPATH := $(CURDIR)/tests/helpers/without_extensions
test-core: $(VENV)/.test
	$(PYTEST) $(addprefix tests/,lyncean protos model_server orchestrator scorer tool_server simulation faults demo_model)

test-others: $(VENV)/.test
	$(PYTEST) $(addprefix tests/,extensions deploy docs examples bench browser)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/buf lint protos
	$(BIN)/buf format --diff --exit-code protos
	$(BIN)/python -m pytest -p no:xdist tests/protos/test_contracts.py

bench: setup
	$(BIN)/python -m bench

# All that a machine with a GPU shows of the model server; results go to bench/results. `bench/gpu.py --toy` needs none.
gpu: $(VENV)/.test
	$(BIN)/python bench/gpu.py

# The drawn configurations of lmms-eval beside its own command line, as a table; COUNT takes fewer. It needs lmms-eval.
equality: setup
	PYTHONPATH=tests $(BIN)/python tests/helpers/equality_lmms.py $(COUNT)

# Their samples imported and explained, with a cause planted in each. DONE=FILE keeps what is done, for the next time.
explained: setup
	PYTHONPATH=tests $(BIN)/python tests/helpers/equality_explained.py $(COUNT) $(DONE)

# Whole runs in seeded worlds: make simulate SEEDS=100000 for a night. A violation prints its seed.
SEEDS ?= 20000
simulate: $(VENV)/.test
	$(BIN)/python tests/play_worlds.py --seeds $(SEEDS)

images:
	docker/build

# Pushes them, for both platforms, with SBOM and provenance: make publish REGISTRY=registry.example/team TAG=v1
publish:
	@test -n "$(REGISTRY)" && test -n "$(TAG)" || { echo "make publish REGISTRY=registry.example/team TAG=v1"; exit 2; }
	REGISTRY=$(REGISTRY:/=)/ TAG=$(TAG) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
	  docker buildx bake --file docker/bake.hcl --push

# Pins what the images hold, by hash, after a change of dependencies.
lock: | $(BIN)/python
	$(BIN)/python docker/lock.py

# Whether changes of the contracts since a commit are additive: make breaking AGAINST=v0.1.0
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
