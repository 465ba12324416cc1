# Each target makes its own virtual environment and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Tests that run on every Python and with every set of versions.
CORE := tests/core tests/contract tests/io/test_artifact.py tests/metrics tests/monitor/test_monitor.py tests/test_public_api.py
VERSION = $(shell $(PYTHON) -c "import sys; print('%d.%d' % sys.version_info[:2])")

# Packages that benchmarks compare with. numba and lightning are undeclared dependencies of
# probmetrics and torch-uncertainty.
PEERS := torchmetrics netcal numba probmetrics lightning torch-uncertainty relplot uncertainty-calibration imagecorruptions

# More packages for the leaderboard. cir-model is a dependency of one method of probmetrics.
LEADERBOARD_PEERS := betacal venn-abers probcal calibre cir-model pyarrow

.PHONY: leaderboard leaderboard-small demo old test coverage test-on test-whole-on test-minimal test-oldest test-integrations lint bench numbers gallery docs dist clean

# An empty environment with a pip that supports dependency groups.
define environment
$(PYTHON) -m venv $(1)
$(1)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
endef

$(VENV)/pip.done:
	$(call environment,$(VENV))
	@touch $@

$(VENV)/wildcal.done: $(VENV)/pip.done pyproject.toml packages/suites/pyproject.toml
	$(BIN)/python -m pip install --quiet --editable packages/suites --editable ".[report]"
	@touch $@

# This version of torch has a small CPU build; a looser requirement installs CUDA.
$(VENV)/test.done: $(VENV)/wildcal.done
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --group test
	@touch $@

# mypy checks against the types of the optional packages.
$(VENV)/lint.done: $(VENV)/test.done
	$(BIN)/python -m pip install --quiet --group lint
	@touch $@

$(VENV)/bench.done: $(VENV)/wildcal.done
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --group bench
	@# Packages that cannot be installed are left out. The constraint keeps the CPU build of torch.
	-for peer in $(PEERS); do \
		$(BIN)/python -m pip install --quiet --constraint constraints/bench.txt $$peer || true; done
	@touch $@

$(VENV)/leaderboard.done: $(VENV)/bench.done
	-for peer in $(LEADERBOARD_PEERS); do \
		$(BIN)/python -m pip install --quiet --constraint constraints/bench.txt $$peer || true; done
	@touch $@

demo: $(VENV)/wildcal.done
	$(BIN)/wildcal demo --output demo-output

# Version 0.1 of both packages in .venv-old, to compare results and speed with.
OLD := $(shell cat benchmarks/version-0.1.txt)
old:
	$(call environment,$(VENV)-old)
	rm -rf $(VENV)-old/source && mkdir $(VENV)-old/source
	git archive $(OLD) | tar -x -C $(VENV)-old/source
	$(VENV)-old/bin/python -m pip wheel --quiet --no-deps --wheel-dir $(VENV)-old/wheels \
		$(VENV)-old/source $(VENV)-old/source/packages/suites
	$(VENV)-old/bin/python -m pip install --quiet --force-reinstall --no-deps $(VENV)-old/wheels/*.whl
	$(VENV)-old/bin/python -m pip install --quiet "wildcal[tables,safetensors,shift,sklearn,onnx]"

# Tests run in one process per core. More threads in each would compete for the cores.
test test-on test-whole-on test-minimal test-oldest: export OMP_NUM_THREADS := 1
test test-on test-whole-on test-minimal test-oldest: export OPENBLAS_NUM_THREADS := 1

# A missing optional package is a failure here, not a skipped test. The tests of one file run in one
# process and share its fixtures.
test: $(VENV)/test.done
	WILDCAL_REQUIRE_EXTRAS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile

# Line coverage, with commands and servers that tests start; fails below 95 %. A server whose disk is
# full cannot write its coverage.
coverage: $(VENV)/test.done
	$(BIN)/python -m pip install --quiet --group coverage
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --cov --cov-report=term:skip-covered \
		--numprocesses auto --maxprocesses 8 --dist loadfile \
		--deselect tests/serve/test_defects.py::test_a_full_disk

# make test-on PYTHON=python3.13: tests of the core on another Python, with the newest dependencies.
test-on:
	$(call environment,$(VENV)-$(VERSION))
	$(VENV)-$(VERSION)/bin/python -m pip install --quiet --editable packages/suites --editable . --group test-core
	$(VENV)-$(VERSION)/bin/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile $(CORE)

# make test-whole-on PYTHON=python3.13: all tests on another Python; those that need torch are skipped.
test-whole-on:
	$(call environment,$(VENV)-$(VERSION)-whole)
	$(VENV)-$(VERSION)-whole/bin/python -m pip install --quiet --editable packages/suites --editable . --group test-without-torch
	$(VENV)-$(VERSION)-whole/bin/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile

# With the base dependencies only; tests that need more are skipped.
test-minimal:
	$(call environment,$(VENV)-minimal)
	$(VENV)-minimal/bin/python -m pip install --quiet --editable packages/suites --editable . --group test-minimal
	$(VENV)-minimal/bin/python -m pytest -r s -o addopts="-q --import-mode=importlib" tests/core tests/io tests/metrics tests/monitor \
		tests/cli/test_cli.py tests/corruptions tests/interop tests/test_public_api.py

# With the oldest declared versions. Torch is left out, because its old builds install 2 GB of CUDA;
# ONNX is tested with the newest versions only.
test-oldest:
	$(call environment,$(VENV)-oldest)
	$(VENV)-oldest/bin/python -m pip install --quiet --constraint constraints/oldest.txt \
		--editable packages/suites --editable ".[corruptions,sklearn,report,tables]" "faiss-cpu>=1.9" --group test-core
	$(VENV)-oldest/bin/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile \
		tests/core tests/io tests/monitor tests/corruptions tests/metrics tests/cli/test_cli.py \
		tests/plots tests/interop/test_sklearn.py tests/vision/test_neighbors.py

# With Lightning, the Trainer of transformers, and MLflow: a large installation.
test-integrations: $(VENV)/test.done
	$(BIN)/python -m pip install --quiet --constraint constraints/bench.txt --group integrations
	WILDCAL_REQUIRE_EXTRAS=1 $(BIN)/python -m pytest tests/interop/integrations

lint: $(VENV)/lint.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Measure the shipped suites again and update the pages.
numbers: $(VENV)/bench.done
	$(BIN)/python benchmarks/studies/shipped.py
	$(BIN)/python docs/make.py

bench: $(VENV)/bench.done
	$(BIN)/python benchmarks/speed.py --output benchmarks/speed.csv
	$(BIN)/python benchmarks/peers.py --output benchmarks/peers.csv
	$(BIN)/python benchmarks/corruptions.py --size 224 --peer $(BIN)/python --output benchmarks/corruptions.csv

# Compare all calibrators with other libraries on real predictions: an hour; an interrupted run
# continues. PUBLISHED=FOLDER has copies of the repositories that benchmarks/leaderboard/README.md lists.
leaderboard leaderboard-small: export OMP_NUM_THREADS := 1
leaderboard leaderboard-small: export PYTHONWARNINGS := ignore
leaderboard: $(VENV)/leaderboard.done
	$(BIN)/python -m benchmarks.leaderboard $(if $(PUBLISHED),--published $(PUBLISHED))
	$(BIN)/python docs/make.py

# A small part of it, five minutes: fails if a calibrator fails or the default gets worse than none.
leaderboard-small: $(VENV)/leaderboard.done
	$(BIN)/python -m benchmarks.leaderboard --small

# Run the examples of the gallery and write its page, their figures and notebooks.
gallery: $(VENV)/test.done
	$(BIN)/python docs/gallery.py

# The site, in the folder site/. Broken links and unknown names fail.
docs: $(VENV)/docs.done
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(VENV)/docs.done: $(VENV)/wildcal.done
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

# Build and check both packages, validate workflows and other files, then install the wheel alone in a
# new environment and use it.
SCHEMA = $(VENV)-dist/bin/check-jsonschema --builtin-schema
dist:
	rm -rf dist $(VENV)-wheel
	$(call environment,$(VENV)-dist)
	$(VENV)-dist/bin/python -m pip install --quiet --group release
	$(VENV)-dist/bin/python -m build --outdir dist .
	$(VENV)-dist/bin/python -m build --outdir dist packages/suites
	$(VENV)-dist/bin/twine check --strict dist/*
	$(VENV)-dist/bin/check-wheel-contents dist/*.whl
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) vendor.github-issue-forms .github/ISSUE_TEMPLATE/*.yml
	$(SCHEMA) vendor.citation-file-format CITATION.cff
	$(VENV)-dist/bin/hadolint Dockerfile examples/serve/Dockerfile
	$(SCHEMA) vendor.compose-spec examples/serve/compose.yaml
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet dist/wildcal-*.whl
	$(VENV)-wheel/bin/wildcal --version
	$(VENV)-wheel/bin/wildcal methods --quiet > /dev/null
	$(VENV)-wheel/bin/python -c "import wildcal; wildcal.TemperatureScaling().fit([[3, 0], [3, 0], [3, 0]], [0, 0, 1])"

clean:
	rm -rf $(VENV) $(VENV)-* demo-output site dist
