"""Alarms after deployment, against transcriptions row by row."""

import json
import math

import numpy as np

from helpers import assert_close


def slow_p_values(bins, known, counts):
    """P-values from the words of the docstring, row by row."""
    before = [j for j, n in enumerate(counts) for _ in range(n)]
    found = []
    for one, is_known in zip(bins, known, strict=True):
        up_to = sum(other <= one for other in before)
        found.append((1 + up_to) / (len(before) + 1) if is_known else 1.0)
        before.append(one if is_known else 0)
    return np.array(found)


def in_pieces(make, values, known, rng):
    """The same rows in pieces, with the state through JSON after each."""
    alarm = make()
    at = np.sort(rng.integers(0, len(values) + 1, size=7))
    for part, labels in zip(np.split(values, at), np.split(known, at), strict=True):
        alarm = make().restore(json.loads(json.dumps(alarm.to_state())))
        alarm.update(part, labels)
    return alarm


def check_alarm(make, values, known, expected, rng):
    whole, pieces = make(), in_pieces(make, values, known, rng)
    whole.update(values, known)
    over = np.flatnonzero(expected >= whole.limit)
    for alarm in (whole, pieces):
        assert alarm.alarmed_at == (int(over[0]) + 1 if len(over) else None)
        assert_close(alarm.log_value, expected[-1], atol=1e-9)
        assert_close(alarm.largest, max(expected.max(), math.log(0.2)), atol=1e-9)
    assert (whole.n, whole.missing) == (len(values), np.sum(~known))
    return whole
