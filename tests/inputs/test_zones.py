"""Times with a zone: any zone in any kind of frame, and one sentence for a zone nobody knows."""

import functools
import json
from datetime import timedelta, timezone

import numpy as np
import pytest

from helpers import raises
from locuscore import Locus, Scorer, prediction_column
from locuscore._inputs.schema import zone_of
from locuscore.engines import Scale

pytestmark = pytest.mark.extra
ZONES = ["UTC", "America/New_York", "Etc/GMT+5", "GB-Eire", timezone(timedelta(hours=2))]
KINDS = ["pandas", "polars", "pyarrow"]


def frame(zone, n=120, seed=0):
    import pandas as pd

    rng = np.random.default_rng(seed)
    seconds = pd.to_timedelta(rng.integers(0, 3 * 10**7, n), unit="s")
    X = pd.DataFrame(
        {"a": rng.uniform(size=n), "t": pd.Timestamp("2024-01-01", tz="UTC") + seconds}
    )
    return X.assign(t=X["t"].dt.tz_convert(zone))


def as_kind(X, kind):
    import polars as pl
    import pyarrow as pa

    return {"pandas": lambda: X, "polars": lambda: pl.from_pandas(X)}.get(
        kind, lambda: pa.Table.from_pandas(X)
    )()


@functools.cache
def scorer_of(kind, zone="UTC"):
    X, rng = as_kind(frame(zone), kind), np.random.default_rng(1)
    losses = rng.normal(size=len(X))
    return Scorer(
        Locus(prediction_column("a"), engine=Scale(), signals="x", random_state=0).fit(X, losses)
    )


@pytest.mark.parametrize("zone", ZONES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_zone_is_no_matter(kind, zone, tmp_path):
    scorer = scorer_of(kind, zone)
    expected = np.asarray(scorer_of(kind)(frame("UTC"))["bound_0.1"])
    assert len(np.unique(expected)) > 10
    scorer.save(tmp_path / "x.locus")
    loaded = Scorer.load(tmp_path / "x.locus")
    for other in KINDS:
        for where in (zone, "Asia/Tokyo"):
            out = loaded(as_kind(frame(where), other))
            np.testing.assert_allclose(np.asarray(out["bound_0.1"]), expected, rtol=1e-9)


def test_the_predictor_sees_the_times_in_the_zone_of_fit():
    seen = []

    def g(X):
        seen.append(str(X["t"].dt.tz))
        return X["t"].dt.hour.to_numpy(dtype=float)

    X = frame("America/New_York")
    locus = Locus(g, engine=Scale(), random_state=0).fit(X, np.zeros(len(X)))
    del seen[:]
    Scorer(locus)(X.assign(t=X["t"].dt.tz_convert("UTC")))
    assert set(seen) == {"America/New_York"}


@pytest.mark.parametrize("zone", ZONES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_json_rows_are_moved_to_the_zone_of_fit(kind, zone):
    from locuscore.service._json_rows import as_kind as rows_of
    from locuscore.service._json_rows import parse_rows

    scorer = scorer_of(kind, zone)
    row = {"a": 0.5, "t": "2024-01-31T12:00:00+01:00"}
    columns, *_ = parse_rows(json.dumps({"rows": [row]}).encode(), scorer.schema, 10)
    out = scorer(rows_of(scorer.schema, columns))
    X = frame("UTC", 1).assign(a=0.5)
    X["t"] = X["t"].dt.floor("D").map(lambda _: np.datetime64("2024-01-31T11:00:00"))
    expected = scorer(as_kind(X.assign(t=X["t"].dt.tz_localize("UTC")), kind))
    np.testing.assert_allclose(np.asarray(out["bound_0.1"]), np.asarray(expected["bound_0.1"]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_zone_that_nobody_knows(kind):
    """Arrow tables may have one; their instants are known all the same."""
    import pyarrow as pa

    X = frame("UTC")
    strange = pa.table({"a": X["a"], "t": pa.array(X["t"]).cast(pa.timestamp("us", "Mars/Phobos"))})
    scorer = scorer_of(kind)
    if kind == "pyarrow":
        expected = np.asarray(scorer(X)["bound_0.1"])
        np.testing.assert_allclose(np.asarray(scorer(strange)["bound_0.1"]), expected)
    else:
        with raises(ValueError, "'Mars/Phobos'", "column 't'", "UTC"):
            scorer(strange)


def test_zones_in_the_names_of_types():
    name = "Datetime(time_unit='us', time_zone={})"
    assert zone_of(name.format("'America/New_York'")) == "America/New_York"
    assert zone_of(name.format("'pytz.FixedOffset(-90)'")) == "-01:30"
    assert zone_of(name.format("None")) is None
    assert zone_of("String") is None


def test_the_command_line_reads_them(tmp_path, capsys):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from cli_for_tests import fails, run

    X = frame("America/New_York").assign(price=np.arange(120.0) % 7)
    table = pa.Table.from_pandas(X, preserve_index=False)
    pq.write_table(table, tmp_path / "rows.parquet")
    fit = ["-t", "price", "--prediction", "a", "--engine", "scale", "-o", tmp_path / "x.locus"]
    run(capsys, "fit", tmp_path / "rows.parquet", *fit)
    out = tmp_path / "out.csv"
    run(capsys, "score", tmp_path / "x.locus", tmp_path / "rows.parquet", "-o", out)
    strange = table.set_column(1, "t", table["t"].cast(pa.timestamp("us", "Mars/Phobos")))
    with pa.ipc.new_file(str(tmp_path / "m.arrow"), strange.schema) as writer:
        writer.write_table(strange)
    assert "'Mars/Phobos'" in fails(capsys, "fit", tmp_path / "m.arrow", *fit, "--quiet")
    err = fails(capsys, "score", tmp_path / "x.locus", tmp_path / "m.arrow", "-o", out)
    assert "'Mars/Phobos' of column 't'" in err
