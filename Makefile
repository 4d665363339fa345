# Every target sets up what it needs in .venv; running it again is quick.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PEERS := .venv-peers/.ready

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

bench: $(READY) $(PEERS)
	$(BIN)/python benchmarks/interval_coverage.py
	$(BIN)/python benchmarks/interval_robustness.py
	$(BIN)/python benchmarks/false_discoveries.py
	$(BIN)/python benchmarks/attenuation.py
	$(BIN)/python benchmarks/cross_recovery.py
	$(BIN)/python benchmarks/correlate_speed.py
	$(BIN)/python benchmarks/correlate_scale.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/irt_coverage.py
	$(BIN)/python benchmarks/irt.py scale
	$(BIN)/python benchmarks/irt.py peers --python .venv-peers/bin/python

$(PEERS): benchmarks/peers.txt
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	touch $@

figures: $(READY)
	$(BIN)/python docs/make_figures.py

clean:
	rm -rf .venv .venv-peers demo dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
