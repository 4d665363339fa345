# Every target sets up what it needs in .venv; running it again is quick.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup demo test lint bench figures clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/breadth demo --into demo

test: $(READY)
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/interval_coverage.py
	$(BIN)/python benchmarks/false_discoveries.py
	$(BIN)/python benchmarks/attenuation.py
	$(BIN)/python benchmarks/correlate_speed.py
	$(BIN)/python benchmarks/correlate_scale.py

figures: $(READY)
	$(BIN)/python docs/make_figures.py

clean:
	rm -rf .venv demo dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
