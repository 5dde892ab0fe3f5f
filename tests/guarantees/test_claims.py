"""Several claims on the same rows: any rule breaks its claim with probability at most delta."""

import numpy as np
import pytest

from helpers import assert_binomial, repeated
from locuscore import ExceedanceClaim, certify_claims

REPEATS, DELTA, N = repeated(300), 0.1, 600
REFERENCE = np.linspace(0.01, 1.0, 40)  # thresholds fixed beforehand
# P(Z > 1) = 0.2 and P(Z > 2) = 0.1: every claim asks for a little less, at every score.
BROKEN = [
    ExceedanceClaim(1.0, 0.1999),
    ExceedanceClaim(2.0, 0.0999),
    ExceedanceClaim(2.5, 0.0998),
]
EASY = ExceedanceClaim(4.0, 0.3)  # always met, so that its part of delta goes to the others


def count_wrong(certify, claims, rng):
    """Repetitions in which any claim but EASY is certified: all of them are false everywhere."""
    wrong = 0
    for _ in range(REPEATS):
        score, v = rng.uniform(size=(2, N))
        losses = np.where(v < 0.1, 3.0, np.where(v < 0.2, 1.5, 0.0))
        rules = zip(certify(score, losses, claims), claims, strict=True)
        wrong += any(rule.threshold > -np.inf for rule, claim in rules if claim is not EASY)
    return wrong


def together(score, losses, claims):
    groups = np.arange(len(score)) % 8
    return certify_claims(score, losses, claims, DELTA, reference=REFERENCE, groups=groups)


def each_with_all_of_delta(score, losses, claims):
    """The twin: one call per claim."""
    return [together(score, losses, [claim])[0] for claim in claims]


GROUPS = [ExceedanceClaim(1.0, 0.1999, group=i) for i in range(8)]


@pytest.mark.parametrize("claims", [BROKEN, [*BROKEN, EASY], GROUPS])
def test_all_claims_hold_together(claims, rng):
    assert_binomial(count_wrong(together, claims, rng), REPEATS, DELTA, "greater")


def test_a_delta_for_each_claim_is_noticed(rng):
    wrong = count_wrong(each_with_all_of_delta, GROUPS, rng)
    with pytest.raises(AssertionError):
        assert_binomial(wrong, REPEATS, DELTA, "greater")
