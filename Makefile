# Everything a newcomer needs: `make demo` and `make test`. Both set themselves up.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DEMO   := $(VENV)/.installed
DEV    := $(VENV)/.installed-dev
LAB    := $(wildcard lab/pyproject.toml)
PIP    := $(BIN)/pip install --quiet --constraint constraints.txt

.PHONY: browser demo docs links test test-all test-gpu coverage fuzz kills mutants soak lint types contract unit format bench results clean

demo: $(DEMO)
	$(BIN)/glnn fit digits --labels-per-class 5 --out runs/demo --overwrite

test: lint types contract unit

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy
	$(if $(LAB),$(BIN)/mypy --package glnn_lab)

contract: $(DEV)
	$(BIN)/lint-imports
	$(if $(LAB),$(BIN)/lint-imports --config $(LAB))

unit: $(DEV) browser
	$(BIN)/pytest -q -n 2 --dist loadfile

# Chromium and axe-core for the tests of the report page, where they can be had.
browser: $(DEV)
	@sh scripts/get_browser.sh $(VENV)

test-all: lint types contract $(DEV) browser
	$(BIN)/pytest -q -n 2 --dist loadfile -m "not gpu"

# Runs that are killed at random moments and go on; the same test in small is in `make test`.
KILLS ?= 200
kills: $(DEV)
	GLNN_KILLS=$(KILLS) $(BIN)/pytest -q -m slow tests/test_kills.py

# Injured files, so many a parser; the same tests in small are in `make test`.
# The second run breeds inputs that reach new code (Atheris).
FUZZ ?= 10000
fuzz: $(DEV)
	GLNN_FUZZ=$(FUZZ) $(BIN)/pytest -q -n 2 --dist load tests/test_fuzz.py tests/data -k "fuzz or mutated"
	$(PIP) --editable '.[fuzz]'
	GLNN_BRED=$(FUZZ) $(BIN)/pytest -q -n 2 --dist load tests/data tests/test_guided.py -k "mutated or guided"

# Lines and branches of the library that the tests reach.
coverage: $(DEV) browser
	$(BIN)/pytest -q -n 2 --dist loadfile --cov --cov-report term tests

# Small faults planted in each module: how many do the tests notice?
MUTANTS ?= 4
mutants: $(DEV)
	$(BIN)/python scripts/planted_faults --per-module $(MUTANTS) --jobs $(JOBS) --out docs/results/mutants.jsonl

# A thousand fits in one process: memory, handles and threads.
FITS ?= 1000
soak: $(DEV)
	$(BIN)/python scripts/soak.py --fits $(FITS)

# On a machine with a CUDA device.
test-gpu: $(DEV)
	$(BIN)/pytest -q -m gpu

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Every table and figure into docs/results, the table of README.md with them. Stopped or killed, it
# goes on where it was; `glnn reproduce all --dry-run --out docs/results` says how long it takes.
JOBS ?= 2
SEEDS ?= 10
results: $(DEV)
	$(BIN)/glnn reproduce all --jobs $(JOBS) --seeds $(SEEDS) --out docs/results
	$(BIN)/python lab/scripts/readme_headline.py

# Time and memory beside peers, and growth; alone on the machine, or the figures mean little.
BENCH ?= docs/results/bench
bench: $(DEV)
	$(BIN)/glnn bench --datasets cora,citeseer,pubmed --threads 2 --out $(BENCH)
	$(BIN)/glnn bench first --out $(BENCH)
	$(BIN)/glnn bench floor --threads 2 --out $(BENCH)
	$(BIN)/glnn bench growth --threads 2 --out $(BENCH)
	$(BIN)/glnn bench scale --size arxiv --threads 2 --out $(BENCH)
	$(BIN)/glnn bench processes --out $(BENCH)

# The pages of docs/ as HTML, with the examples run and the reference; a warning is an error.
DOCS := $(VENV)/.installed-docs
docs: $(DOCS)
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs
	@echo "build/docs/index.html"

# Every address that the pages name; needs the network.
links: $(DOCS)
	$(BIN)/sphinx-build -W --keep-going -q -b linkcheck docs build/links

$(DOCS): $(DEMO)
	$(PIP) --editable '.[docs]'
	@touch $@

# The library with its pictures, for the demo.
$(DEMO): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "glnn needs Python 3.11 or newer; name one with make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable '.[report]'
	@touch $@

# Library and laboratory with all that their tests need.
$(DEV): $(DEMO) $(LAB)
	$(PIP) --editable '.[dev]' $(if $(LAB),--editable ./lab)
	@touch $@

clean:
	rm -rf $(VENV) runs .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
