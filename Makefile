# Every target sets up what it needs in .venv; running it again is quick.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PEERS := .venv-peers/.ready
HARNESS := .venv-lm-eval/.ready
INSPECT := .venv-inspect/.ready
AXE := .venv/axe/node_modules/axe-core/axe.min.js

AUDIT := .venv-audit/.ready

# Where Python may not keep what it compiled, every command compiles torch and transformers anew, for seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup browser demo test coverage fuzz audit golden lint docs bench figures clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m compileall -qq -j 0 $(CURDIR)/.venv/lib $(CURDIR)/src || true  # some are templates; pip would use one core
	touch $@

demo: $(READY)
	$(BIN)/breadth demo --train --into demo

# Debian's Chromium, where it is missing and may be installed; without it the tests in a browser are skipped.
browser:
	@command -v chromium > /dev/null || (apt-get update && apt-get install -y chromium) > /dev/null 2>&1 \
	  || echo "no chromium here: the tests in a browser will be skipped (apt-get install chromium)"

# The rules by which a page is accessible, run in that browser; without npm these tests are skipped.
$(AXE): $(READY)
	@npm install --silent --no-audit --no-fund --prefix .venv/axe axe-core@4.14.0 > /dev/null 2>&1 && touch $@ \
	  || echo "no axe-core: the tests of accessibility will be skipped (they need npm and its registry)"

test: $(READY) browser $(AXE)
	$(BIN)/python -m pytest

# Which lines the tests run: tracing them takes two to three times as long, so it is not part of every run.
coverage: $(READY) browser $(AXE)
	$(BIN)/python -m pytest --cov=breadth --cov-report=term:skip-covered

# Hours of what the tests try for seconds: mutated files over every reader, known blow-ups, and changes of structure over
# every verb for MINUTES from SEED on, from mutation FIRST on. LOGS: a directory of real logs to change, too.
fuzz: $(READY)
	$(BIN)/python tests/fuzz/fuzzing.py $(or $(COUNT),100000) $(LOGS) --first $(or $(FIRST),0)
	$(BIN)/python tests/fuzz/known.py
	$(BIN)/python tests/fuzz/structured.py --seed $(or $(SEED),0) --minutes $(or $(MINUTES),60) $(LOGS:%=--logs %)

# Known vulnerabilities of the pinned dependencies, then their licences. Two are copyleft: pyreadr (the extra r, which
# is optional) and pingouin (a reference in tests); neither is part of breadth.
audit: $(READY) $(AUDIT)
	.venv-audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --progress-spinner off
	.venv-audit/bin/pip-licenses --python $(BIN)/python --partial-match --fail-on GPL --ignore-packages pyreadr pingouin

$(AUDIT):
	test -x .venv-audit/bin/python || $(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.9' 'pip-licenses>=5'
	touch $@

# What commands print, as files in tests/golden/texts and in the documentation: read the difference before you commit.
golden: $(READY)
	BREADTH_UPDATE_GOLDEN=1 $(BIN)/python -m pytest tests/golden/test_golden_texts.py
	BREADTH_UPDATE_DOCS=1 $(BIN)/python -m pytest tests/test_docs.py -k print

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Everything the site shows is made here: nothing is fetched, and a warning is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

bench: $(READY) $(PEERS) $(HARNESS) $(INSPECT)
	$(BIN)/python benchmarks/interval_coverage.py
	$(BIN)/python benchmarks/interval_robustness.py
	$(BIN)/python benchmarks/false_discoveries.py
	$(BIN)/python benchmarks/attenuation.py
	$(BIN)/python benchmarks/transfer_recovery.py
	$(BIN)/python benchmarks/correlate_speed.py
	$(BIN)/python benchmarks/correlate_scale.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/irt_coverage.py
	$(BIN)/python benchmarks/irt_coverage.py --slopes
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/evaluation_speed.py --peer .venv-lm-eval/bin/python
	$(BIN)/python benchmarks/import_speed.py
	$(BIN)/python benchmarks/import_leaderboard.py
	$(BIN)/python benchmarks/import_inspect.py --peer .venv-inspect/bin/python
	$(BIN)/python benchmarks/irt_likelihood.py
	$(BIN)/python benchmarks/irt.py scale
	$(BIN)/python benchmarks/irt.py peers --python .venv-peers/bin/python

$(PEERS): benchmarks/peers.txt
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	touch $@

$(HARNESS): benchmarks/peers_lm.txt constraints.txt
	test -x .venv-lm-eval/bin/python || $(PYTHON) -m venv .venv-lm-eval
	.venv-lm-eval/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r benchmarks/peers_lm.txt
	touch $@

$(INSPECT): benchmarks/peers_inspect.txt
	test -x .venv-inspect/bin/python || $(PYTHON) -m venv .venv-inspect
	.venv-inspect/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers_inspect.txt
	touch $@

figures: $(READY)
	$(BIN)/python docs/make_figures.py

clean:
	rm -rf .venv .venv-peers .venv-lm-eval .venv-inspect .venv-audit demo dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
