"""Losses in a forged archive: refused in one sentence, or a loss that can be called and named."""

import json

import numpy as np
import pytest

from archives_for_tests import forged, small_scorer
from helpers import raises
from locuscore import ArchiveError, Scorer, cost_per_unit
from locuscore._archive.estimator import decode_loss, encode_loss
from locuscore._archive.values import Reader, Writer
from locuscore._inputs.losses import MAKERS, norm, pinball, relative, resolve_loss

HONEST = {
    "cost_per_unit": {"over": 2.0, "under": 5.0},
    "relative": {"floor": 1.0},
    "norm": {"kind": "max", "weights": [1.0, 2.0]},
    "ndcg": {"top": 3},
}
MISSING, INFINITE = ({"is": "float", "value": value} for value in ("nan", "inf"))
DICT = {"is": "dict", "items": [["a", 1]]}
HOSTILE = [
    None,
    True,
    0,
    -1,
    1e308,
    5e-324,
    10**400,
    "x",
    "1",
    [],
    [[]],
    [[1.0, 2.0]],
    [1.0, [2.0]],
]
HOSTILE += [["1", "2"], [None], DICT, MISSING, INFINITE, {"is": "bytes", "hex": "00"}]
HOSTILE += [{"is": "tuple", "items": [1, 2]}, {"is": "unknown"}, [1.0] * 10_000, "x" * 10_000]


def made(name, parameters):
    items = [[key, value] for key, value in parameters.items()]
    return {"name": name, "parameters": {"is": "dict", "items": items}}


def forged_states():
    for name, honest in HONEST.items():
        for key in honest:
            yield from (made(name, honest | {key: value}) for value in HOSTILE)
            yield made(name, {other: honest[other] for other in honest if other != key})
        yield made(name, honest | {"more": 1})
        yield from ({"name": name, "parameters": value} for value in HOSTILE)
    yield from (made(value, {}) for value in HOSTILE)
    yield from ({"name": value, "is_own": False} for value in HOSTILE)
    yield from ({"name": "pinball", "level": value} for value in HOSTILE)
    yield from ({"name": "cost", "matrix": value, "classes": None} for value in HOSTILE)
    yield from ({"name": "cost", "matrix": [[0, 1], [1, 0]], "classes": v} for v in HOSTILE)


def test_every_loss_with_parameters_is_forged():
    assert set(HONEST) == set(MAKERS)


def test_a_forged_loss_is_refused_or_one_that_can_be_used():
    refused = []
    for state in forged_states():
        try:
            loss = decode_loss(state, Reader({}, {}), None)
        except (ValueError, TypeError, KeyError, OverflowError) as error:  # one sentence in `load`
            refused.append(str(error))
            continue
        assert len(loss.name) < 500
        writer = Writer()
        kept = json.loads(json.dumps(encode_loss(loss, writer)))
        assert decode_loss(kept, Reader(writer.members, {}), None).name == loss.name
    assert len(refused) > 200
    assert max(map(len, refused)) < 500


@pytest.mark.extra
@pytest.mark.parametrize(
    ("state", "facts"),
    [
        ({"name": None, "is_own": False}, ["loss", "None"]),
        ({"name": DICT, "is_own": True}, ["loss", "name"]),
        (made("norm", {"kind": "max", "weights": [1.0, -1.0]}), ["weights", "positive"]),
        (made("relative", {"floor": MISSING}), ["floor", "above 0", "nan"]),
        (made("cost_per_unit", {"over": 1.0}), ["loss", "parameters", "cost_per_unit"]),
        (made("exec", {}), ["loss", "exec", "not known"]),
    ],
)
def test_an_archive_with_a_forged_loss_is_refused(tmp_path, state, facts):
    saved = tmp_path / "x.locus"
    small_scorer(loss=cost_per_unit(2, 5)).save(saved, keep_rows=False)

    def change(locus, part):
        locus["loss"] = state

    with raises(ArchiveError, *facts):
        Scorer.load(forged(saved, tmp_path / "y.locus", change))


@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (lambda: norm(np.array(["max", "sum"])), ["norm", "euclidean"]),
        (lambda: norm("max", np.zeros(10_000)), ["weights", "positive"]),
        (lambda: relative(10**400), ["floor", "number"]),
        (lambda: pinball("half"), ["level", "'half'"]),
        (lambda: pinball([0.5]), ["level", "between 0 and 1"]),
    ],
)
def test_bad_parameters_are_told_in_a_short_sentence(make, facts):
    with raises((TypeError, ValueError), *facts) as caught:
        make()
    assert len(str(caught.value)) < 250


def test_many_weights_are_not_all_shown():
    loss = norm("sum", np.ones(1000))
    assert loss.name == "norm('sum', [1, 1, 1, 1, 1, 1, ...])"
    assert resolve_loss(loss)(np.ones((2, 1000)), np.zeros((2, 1000))).tolist() == [1000, 1000]
