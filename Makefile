# One word per chore. Each makes its own virtual environment and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint bench clean

$(VENV)/pip.done:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@touch $@

$(VENV)/wildcal.done: $(VENV)/pip.done pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# The exact torch version is the one with a small CPU build; a looser pin pulls in CUDA.
$(VENV)/test.done: $(VENV)/wildcal.done
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --group test
	@touch $@

# With the optional packages, whose types are checked against.
$(VENV)/lint.done: $(VENV)/test.done
	$(BIN)/python -m pip install --quiet --group lint
	@touch $@

$(VENV)/bench.done: $(VENV)/wildcal.done
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --group bench
	@touch $@

demo: $(VENV)/wildcal.done
	$(BIN)/wildcal demo --output demo-output

# In this run a missing optional package is a failure, not a skipped test. The tests of one file stay
# in one process, which shares what it prepared.
test: $(VENV)/test.done
	WILDCAL_REQUIRE_EXTRAS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile

lint: $(VENV)/lint.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/bench.done
	$(BIN)/python benchmarks/speed.py --output benchmarks/speed.csv
	$(BIN)/python benchmarks/protocol.py --output benchmarks/protocol.csv
	$(BIN)/python benchmarks/corruptions.py
	$(BIN)/python benchmarks/interop.py --output benchmarks/interop.csv
	$(BIN)/python benchmarks/import_time.py

clean:
	rm -rf $(VENV) demo-output
