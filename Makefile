# Each target sets up what it needs in .venv; CI calls these targets and nothing else.
PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip install --quiet --disable-pip-version-check -c constraints.txt

# One thread per BLAS or OpenMP call: results repeat, and parallel tests do not fight.
TEST_THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo docs browser test test-core lint types guarantees default-engine speed speed-bart engine-costs bart-transform certificates gamma probability mean-loss speed-mdn cli-score rows-worth-using report-cost service-load clean
.PHONY: fuzz bench bench-smoke bench-slow bench-oracle bench-homes bench-report

demo: .venv/.demo
	$(BIN)/locuscore demo

test: .venv/.dev browser
	$(TEST_THREADS) $(BIN)/python -m pytest -n 2

# The report page is tested in a real browser; without one those tests are skipped and say so.
browser:
	@command -v chromium >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; } \
		>/dev/null 2>&1 || echo "Chromium is missing and cannot be installed here; its tests are skipped."

# The site, in build/docs/html; a warning fails it.
docs: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m sphinx -W --keep-going -q -c docs -d build/docs/doctrees . build/docs/html
	@echo "build/docs/html/index.html"

# The core alone: no optional package is installed, so a stray import fails here.
test-core: .venv-core/.core
	$(TEST_THREADS) .venv-core/bin/python -m pytest -n 2 -m "not extra"

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev
	$(BIN)/mypy

# The long statistical runs; their figures go into docs/.
guarantees: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.paper.consistency

certificates: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.choices.certificates

# How many draws a forest should have under gamma.
gamma: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.choices.gamma

# How far off `Locus.probability` is, by decile.
probability: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.choices.probability

# What a mean-loss test without a seed costs in power and width.
mean-loss: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.choices.mean_loss

default-engine: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.choices.default_engine

speed: .venv/.dev
	$(BIN)/python -m benchmarks.costs.speed

# PyMC is slow: most of an hour; finished datasets are kept.
speed-bart: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.costs.bart

engine-costs: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.costs.engines

bart-transform: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.choices.bart_transform

speed-mdn: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.costs.mdn

# The command `score` against the in-memory call, and what more rows bring.
cli-score: .venv/.dev
	$(BIN)/python -m benchmarks.costs.cli_score

# A report beside scoring the same rows: up to a million of them, a few minutes.
report-cost: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.costs.report

rows-worth-using: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.choices.rows_worth_using

# The service and Spark beside the scorer in memory; wants both cores to itself.
service-load: .venv/.dev
	$(BIN)/python -m benchmarks.costs.service

# 20,000 forged archives, each in a process of its own: a quarter of an hour on one core.
fuzz: .venv/.dev
	$(TEST_THREADS) PYTHONPATH=tests:tests/support $(BIN)/python -m benchmarks.costs.fuzz_archives

# The paper's evaluation with peers; resumable, prints its estimate first. BENCH holds options.
bench: .venv/.bench
	$(BIN)/python -m benchmarks.paper.run $(BENCH)

# Two datasets, two seeds, all methods: a few minutes; records are thrown away.
bench-smoke: .venv/.bench
	rm -rf build/smoke
	$(BIN)/python -m benchmarks.paper.run --smoke --folder build/smoke/records
	$(BIN)/python -m benchmarks.paper.report --folder build/smoke/records --out build/smoke/RESULTS.md

# The paper's own BART backend, on two small datasets: half an hour.
bench-slow: .venv/.bench
	$(BIN)/python -m benchmarks.paper.run --methods slow $(BENCH)

bench-oracle: .venv/.bench
	$(TEST_THREADS) $(BIN)/python -m benchmarks.paper.oracle

bench-homes: .venv/.bench
	$(TEST_THREADS) $(BIN)/python -m benchmarks.paper.homes

bench-report: .venv/.bench
	$(BIN)/python -m benchmarks.paper.figure1
	$(BIN)/python -m benchmarks.paper.report

.venv/.demo: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) -e ".[demo]"
	touch $@

.venv/.dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) -e ".[dev]"
	touch $@ .venv/.demo

.venv/.bench: .venv/.dev
	$(BIN)/python $(PIP) -e ".[dev,bench]"
	touch $@

.venv-core/.core: pyproject.toml constraints.txt
	test -x .venv-core/bin/python || $(PYTHON) -m venv .venv-core
	.venv-core/bin/python $(PIP) -e . pytest pytest-xdist hypothesis
	touch $@

clean:
	rm -rf .venv .venv-core build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
