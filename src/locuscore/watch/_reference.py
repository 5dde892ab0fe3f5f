"""Rows that new ones are compared with, without labels: fixed when a scorer is deployed."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from locuscore import RowLaws, Score, Scorer
from locuscore._protocols import FloatArray

MOST_ROWS = 500
MOST_FLOATS = 50_000  # of signals; with many of them rows are fewer
LONGEST_NAME = 60


def reference_of(scorer: Scorer, *, keep_signals: bool) -> dict[str, Any]:
    """What is kept of a scorer's rows to see drift by, in the types JSON has.

    ``value`` says what is compared: the rule's score, or the first bound. ``scores`` are those of
    random rows of D2, or None: then the first decisions are the reference. With `keep_signals` also
    the signals of rows of D2 and of D1. ``why_not`` is the reason why rows cannot be compared one
    by one.
    """
    locus = scorer.locus
    S = getattr(locus, "calibration_signals_", None)
    found: dict[str, Any] = {
        "value": "bound" if scorer.rule is None else "score",
        "scores": None,
        "why_not": None,
    }
    if locus.calibration_.n_clusters is not None:
        found["why_not"] = "rows come in clusters, so they are not exchangeable one by one"
    elif S is not None and locus.calibration_.certifies_by == "rows":
        scores = _scores(scorer, _some(S, MOST_ROWS))
        found["scores"] = None if scores is None else packed(scores[:, None])
    if keep_signals:
        d1 = getattr(locus, "reference_signals_", None)
        if locus.calibration_.certifies_by == "weights":
            S = None  # new rows are known to be another mix
        for name, rows in (("signals", S), ("fit_signals", d1)):
            if rows is not None:
                found[name] = packed(
                    _some(rows, max(1, min(MOST_ROWS, MOST_FLOATS // rows.shape[1])))
                )
        some = d1 if S is None else S
        if some is not None:
            width = some.shape[1]
            found["names"] = _names(scorer, width)
            found["players"] = locus.signals_.players(width).tolist()
    return found


def _scores(scorer: Scorer, S: FloatArray) -> FloatArray | None:
    """Scores of rows of D2, where these are exchangeable with those of new rows; else None.

    The raw tail is a function of D1 alone. An exceedance is a nondecreasing function of it, the
    same for all rows, so a row of at least the same tail is in the same bin or a higher one. A
    bound has its level from D2, which ties D2's rows together.
    """
    score = None if scorer.rule is None else scorer.rule.score
    calibration = scorer.locus.calibration_
    is_shared = calibration.reads is None and calibration.asks is None
    if score is None or not (score.kind == "tail" or (score.kind == "exceedance" and is_shared)):
        return None
    laws = RowLaws(slice(0, len(S)), scorer.locus.loss_model_.dist(S), calibration, None)
    values: FloatArray = laws.scores([Score.from_dict(score.to_dict())])[:, 0]
    return values


def _some(rows: FloatArray, most: int) -> FloatArray:
    """At most so many rows, at random but always the same: the digest says nothing of the rows."""
    return rows[np.sort(np.random.default_rng(0).permutation(len(rows))[:most])]


def _names(scorer: Scorer, width: int) -> list[str]:
    is_array = scorer.schema.kind == "array"
    features = [f"x{name}" if is_array else str(name) for name in scorer.schema.names]
    names = scorer.locus.signals_.names(scorer.locus.predictor_, features, width)
    return [name[:LONGEST_NAME] for name in names]


def packed(rows: FloatArray) -> dict[str, Any]:
    """A matrix as text: signals in float32, which is enough to compare them."""
    dtype = "<f8" if rows.shape[1] == 1 else "<f4"
    text = base64.b64encode(np.asarray(rows, dtype=dtype).tobytes()).decode("ascii")
    return {"shape": list(rows.shape), "dtype": dtype, "data": text}


def unpacked(kept: Mapping[str, Any] | None) -> FloatArray | None:
    """Undo `packed`."""
    if kept is None:
        return None
    if kept["dtype"] not in ("<f8", "<f4"):
        raise ValueError(f"rows are kept as float32 or float64; got {kept['dtype']!r:.40}.")
    values = np.frombuffer(base64.b64decode(kept["data"]), dtype=kept["dtype"])
    return values.reshape(kept["shape"]).astype(np.float64)
