"""Ledgers to test on, what they are filled with, and a slow recount of their sums."""

import os
import secrets
from collections import defaultdict

import numpy as np
import pytest

import locuscore
from postgres_for_tests import MISSING, binaries, server

DAY = 86_400_000_000
NOON = 19_700 * DAY + DAY // 2  # in microseconds since 1970
ALPHAS, TAU = (0.5, 0.1), 1.0
PACKAGE = locuscore.__path__[0]
# For the start of a script: the package without what its estimators import.
LIGHT = f"""
import sys, types
for name, path in (("locuscore", {PACKAGE!r}), ("locuscore.watch", {PACKAGE + "/watch"!r})):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
"""
GROUPS = ["north", "south", None]


@pytest.fixture(scope="session")
def postgres():
    """One server for all tests of a process."""
    if binaries() is None:
        if os.environ.get("LOCUSCORE_POSTGRES") == "required":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    with server() as started:
        yield started


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """Where an empty ledger may be made."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/decisions.db"
    return new_schema(request.getfixturevalue("postgres"))


@pytest.fixture
def another_url(url, request, tmp_path):
    """A second one of the same kind."""
    if url.startswith("sqlite"):
        return f"sqlite:///{tmp_path}/another.db"
    return new_schema(request.getfixturevalue("postgres"))


def new_schema(postgres):
    name = f"s{secrets.token_hex(6)}"
    with postgres.connect() as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{postgres.url()}?options=-csearch_path%3D{name}"


class Clock:
    """A clock that goes where a test wants it."""

    def __init__(self, now=NOON):
        self.now = now

    def __call__(self):
        return self.now


def deployment(digest="first", **changed):
    from locuscore.watch._ledger import Deployment

    return Deployment(digest, ALPHAS, **({"tau": TAU} | changed))


def opened(url, clock=None):
    """A ledger with one deployment, called "first"."""
    from locuscore.watch._ledger import Ledger

    ledger = Ledger(url, clock=clock)
    ledger.deploy(deployment())
    return ledger


def decisions(rng, ids, time=NOON):
    """Columns of some decisions, over three days."""
    n = len(ids)
    drawn = rng.uniform(size=n) < 0.6
    return {
        "id": list(ids),
        "time": time + rng.integers(-DAY, DAY, size=n),
        "prediction": rng.normal(size=n),
        "bounds": np.sort(rng.exponential(size=(n, 2)), axis=1),
        "score": rng.normal(size=n),
        "probability": rng.uniform(size=n),
        "flagged": rng.uniform(size=n) < 0.3,
        "group_name": [GROUPS[k] for k in rng.integers(3, size=n)],
        "cluster": [f"c{k}" for k in rng.integers(5, size=n)],
        "chance": np.where(drawn, rng.choice([0.25, 0.5, 1.0], size=n), np.nan),
        "drawn": drawn,
    }


def rows_of(columns):
    """One dictionary per row."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def slow_sums(decided, labels):
    """Recount of all sums: `decided` by id, `labels` of an id in order of arrival.

    A label is (time, loss); the current one has the latest time, and came last among equal ones.
    """
    sums = defaultdict(lambda: [0.0, 0.0])
    for row in decided.values():
        found = labels.get(row["id"], [])
        measures = {"rows": 1.0, "probability": row["probability"]}
        if found:
            time, loss = max(enumerate(found), key=lambda pair: (pair[1][0], pair[0]))[1]
            measures |= {"labelled": 1.0, "loss": loss, "bad": loss > TAU}
            measures["lag"] = (time - row["time"]) / 1e6
            for alpha, bound in zip(ALPHAS, row["bounds"], strict=True):
                measures[f"miss {alpha}"] = loss > bound
        weight = 1 / row["chance"] if row["drawn"] else 0.0
        cell = (row["time"] // DAY, row["group_name"] or "", not row["flagged"], row["drawn"])
        for name, value in measures.items():
            sums[*cell, name][0] += value
            sums[*cell, name][1] += weight * value
    return dict(sums)


def sums_of(ledger, digest="first"):
    """Sums of a ledger in the same form."""
    names = ("day", "group_name", "accepted", "drawn", "measure")
    found = ledger.daily(digest)
    keys = zip(*(found[name].tolist() for name in names), strict=True)
    pairs = zip(found["total"].tolist(), found["weighted"].tolist(), strict=True)
    return dict(zip(keys, map(list, pairs), strict=True))


def assert_same_sums(found, wanted):
    for key in found.keys() | wanted.keys():
        np.testing.assert_allclose(
            found.get(key, [0.0, 0.0]), wanted.get(key, [0.0, 0.0]), rtol=1e-9, atol=1e-9,
            err_msg=str(key),
        )  # fmt: skip


def everything(ledger, digest="first", **options):
    """All rows of a deployment."""
    return ledger.matured(digest, after_seq=0, written_before=2**60, **options)
