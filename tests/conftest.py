import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from archives_for_tests import small_scorer
from locuscore import Scorer
from locuscore._shared import machine_code

# MLflow would report its use.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

# No clock decides about a test, and a failure repeats.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Seeded from the test's own name, so that a failure repeats."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


@pytest.fixture(autouse=True)
def few_rows_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test counts its own rows towards the start of compiled loops."""
    monkeypatch.setattr(machine_code, "_starter", machine_code.Starter())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test may save an archive."""
    return tmp_path / "x.locus"


@pytest.fixture(scope="session")
def scorer() -> Scorer:
    """A small scorer for files that do not make their own, with all signals."""
    return small_scorer(signals="all")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Hand out whole files, those with most tests first.

    One worker then fits and imports what the tests of a file share, and there is one Spark session.
    Tests of theorems share nothing: they go last and one by one, so that all workers end together.
    """
    return FilesThenTheorems(config, log)


# Files that fit every engine on the same rows go to one worker, which does so once.
TOGETHER = {"tests/spark/test_spark.py": "tests/service/test_service.py"}


class FilesThenTheorems(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return nodeid if "/guarantees/" in nodeid else TOGETHER.get(file, file)
