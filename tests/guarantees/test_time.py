"""Rows that drift: the gap of fading weights, by enumeration; the long run of adaptive bounds."""

import math
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from engines_for_tests import quick
from locuscore._laws.calibration import MarginalCalibration
from locuscore._protocols import Part
from locuscore.calibration._fading import FadingCalibration

HALF_LIVES = (0.7, 2.0, 5.0, math.inf)
ALPHAS = (0.2, 0.3, 0.45, 0.5, 0.6, 0.8)


def fading(tails, half_life, drift=None):
    tails = np.array(tails, dtype=float)
    return FadingCalibration.of(Part(None, np.arange(len(tails)), None, tails), half_life, drift)


def reference_alpha(tails, survival, half_life):
    """The definition, row by row; the newest row is the last, and has age 1."""
    n = len(tails)
    weights = [2.0 ** (-(n - i) / half_life) for i in range(n)]
    below = sum(w for w, tail in zip(weights, tails, strict=True) if tail <= survival)
    return (1 + below) / (1 + sum(weights))


@pytest.mark.parametrize("half_life", HALF_LIVES)
def test_levels_are_the_definition(half_life, rng):
    for n in (1, 2, 7, 30):
        tails = np.round(rng.uniform(size=n), 1)  # some are equal
        found = fading(tails, half_life)
        survival = np.append(rng.uniform(size=20), tails)
        expected = [reference_alpha(tails, s, half_life) for s in survival]
        np.testing.assert_allclose(found.smallest_alpha(survival[:, None])[:, 0], expected, 1e-9)
        # Every value that it can take as alpha, and those beside it.
        values = np.unique(found.smallest_alpha(survival[:, None]))
        alphas = np.concatenate([ALPHAS, values, np.nextafter(values, 0), np.nextafter(values, 1)])
        for alpha in alphas[alphas < 1]:
            fits = survival < found.level(alpha)  # that the bound is at most tau
            assert (fits == (found.smallest_alpha(survival) <= alpha)).all()


def test_equal_weights_are_marginal_calibration_exactly(rng):
    for n in (1, 9, 10, 99, 1000):
        tails = rng.uniform(size=n)
        one, other = fading(tails, math.inf), MarginalCalibration(np.sort(tails))
        alphas = np.concatenate([np.arange(1, n + 1) / (n + 1), np.linspace(0.001, 0.999, 999)])
        assert (one.level(alphas) == other.level(alphas)).all()
        survival = np.append(tails, rng.uniform(size=50))
        assert (one.smallest_alpha(survival) == other.smallest_alpha(survival)).all()
        for alpha in (0.01, 0.1, 0.5):
            assert (one.too_few(alpha) is None) == (other.too_few(alpha) is None)


def misses(laws, calibration, alphas):
    """``P(tail of the last row < level)`` at each alpha, summed over all rows, exactly.

    `laws` are those of independent rows: probabilities of tails.
    """
    total = dict.fromkeys(alphas, Fraction(0))
    for outcome in product(*(law.items() for law in laws)):
        tails = [tail for tail, _ in outcome]
        weight = math.prod((p for _, p in outcome), start=Fraction(1))
        made = calibration(tails[:-1])
        for alpha in alphas:
            total[alpha] += weight if tails[-1] < made.level(alpha) else 0
    return total


def mixture(share, one, other):
    return {t: (1 - share) * one.get(t, 0) + share * other.get(t, 0) for t in {**one, **other}}


EVEN = {Fraction(k, 10): Fraction(1, 3) for k in (2, 5, 8)}
HARD = {Fraction(1, 10): Fraction(1)}
N, DRIFT = 4, Fraction(1, 12)
# The law moves by as much between any two neighbours; total variation is the share that moves.
DRIFTING = [mixture(DRIFT * i, EVEN, HARD) for i in range(N + 1)]


@pytest.mark.parametrize("half_life", HALF_LIVES)
def test_the_gap_of_drifting_rows(half_life):
    gap = fading([0.5] * N, half_life, float(DRIFT)).gap()
    found = misses(DRIFTING, lambda tails: fading(tails, half_life), ALPHAS)
    for alpha in ALPHAS:
        assert found[alpha] <= alpha + gap
    if half_life > 2:  # the drift is seen: without the gap it would be wrong
        assert any(found[alpha] > alpha for alpha in ALPHAS)


def two_rows(d, m=60):
    """One calibration row and one new one, whose laws have the total variation d."""
    even = {Fraction(k + 2, m + 4): Fraction(1, m) for k in range(m)}
    low, high = {Fraction(0): Fraction(1)}, {Fraction(1): Fraction(1)}
    return [mixture(d, even, high), mixture(d, even, low)]


@pytest.mark.parametrize("d", [Fraction(1, 10), Fraction(1, 2), Fraction(1)])
def test_the_gap_is_reached_and_twice_the_total_variation_is_needed(d):
    calibration = fading([0.5], math.inf, float(d))
    (missed,) = misses(two_rows(d), lambda tails: fading(tails, math.inf), [0.5]).values()
    assert 0.5 + calibration.gap() - 1 / 120 <= missed <= 0.5 + calibration.gap()
    if d < 1:  # the tempting number is the total variation itself, times the weight
        assert missed > Fraction(1, 2) + d / 2


@pytest.mark.parametrize("half_life", HALF_LIVES)
def test_exchangeable_rows_have_no_gap(half_life):
    tails = np.arange(1, 7) / 10
    orders = list(permutations(tails))
    for alpha in ALPHAS:
        missed = sum(order[-1] < fading(order[:-1], half_life).level(alpha) for order in orders)
        assert missed <= alpha * len(orders)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda below, total: below / total,  # without the new row
        lambda below, total: (1 + below) / (2 + total),  # with the new row twice in the total
    ],
)
def test_wrong_weights_would_be_noticed(wrong):
    """Exchangeable rows are missed more often than alpha."""

    def level(tails, alpha):
        weights = {tail: 2.0 ** (-(len(tails) - i) / 5.0) for i, tail in enumerate(tails)}
        total = sum(weights.values())
        above = (
            t
            for t in sorted(tails)
            if wrong(sum(w for s, w in weights.items() if s <= t), total) > alpha
        )
        return 0.0 if wrong(0, total) > alpha else next(above)

    orders = list(permutations(np.arange(1, 7) / 10))
    shares = [np.mean([o[-1] < level(o[:-1], alpha) for o in orders]) for alpha in ALPHAS]
    assert any(share > alpha for share, alpha in zip(shares, ALPHAS, strict=True))


# Adaptive bounds: the update in exact numbers, and adversaries that choose everything else.


class Exact:
    """The rule in fractions. A row is decided by its alpha_t; the adversary says what is above."""

    sign = 1

    def __init__(self, alpha, step):
        self.alpha, self.step = alpha, step
        self.labels = self.above = self.decided = self.longest = 0
        self.waiting = []

    @property
    def now(self):
        return self.alpha + self.sign * self.step * (self.labels * self.alpha - self.above)

    def decide(self):
        self.waiting.append((self.decided, self.now))
        self.decided += 1

    def label(self, place, wish):
        """The adversary's wish counts only between the two ends."""
        serial, at = self.waiting.pop(place)
        is_above = wish if 0 < at < 1 else at >= 1
        self.longest = max(self.longest, self.decided - serial)
        self.labels += 1
        self.above += is_above

    def check(self):
        if not self.labels:
            return
        share, n = Fraction(self.above, self.labels), self.step * self.labels
        a, s, d = self.alpha, self.step, self.longest
        assert share - a <= (a + s * (1 - a) * d) / n
        assert a - share <= (1 - a + s * a * d) / n
        assert abs(share - a) <= (max(a, 1 - a) + s * d) / n


def duel(kind, alpha, step, rng, n=100, most=12):
    """Batches and delays at random; what is above at random, always, never, or in turns."""
    rule, habit = kind(alpha, step), rng.integers(5)
    for t in range(n):
        for _ in range(rng.integers(0, most)):
            rule.decide()
        for _ in range(rng.integers(0, most)):
            if rule.waiting:
                wish = [True, False, t % 2 == 0, bool(rng.integers(2)), t // 20 % 2 == 0][habit]
                oldest_or_any = 0 if rng.integers(2) else int(rng.integers(len(rule.waiting)))
                rule.label(oldest_or_any, wish)
                rule.check()
    return rule


STREAMS = [(Fraction(1, 10), Fraction(1, 20)), (Fraction(7, 10), Fraction(1, 5))]


@pytest.mark.parametrize(("alpha", "step"), STREAMS)
def test_the_long_run_holds_for_every_adversary(alpha, step, rng):
    for _ in range(20):
        duel(Exact, alpha, step, rng)


def held_back(kind, alpha, step, wait):
    """Spend alpha, then decide many rows with the last of it, and label them all as above."""
    rule = kind(alpha, step)
    while rule.now > step * (1 - alpha):
        rule.decide()
        rule.label(0, True)
    for _ in range(wait):
        rule.decide()
    for _ in range(wait):
        rule.label(0, True)
        rule.check()
    return rule


@pytest.mark.parametrize(("alpha", "step"), STREAMS)
def test_delayed_labels_reach_it(alpha, step):
    rule = held_back(Exact, alpha, step, 40)
    excess = Fraction(rule.above, rule.labels) - alpha
    reached = excess * step * rule.labels
    assert alpha + step * (1 - alpha) * 39 <= reached <= alpha + step * (1 - alpha) * 40
    # So a promise that forgets the delay is broken.
    assert reached > max(alpha, 1 - alpha) + step


class WrongSign(Exact):
    sign = -1


class Forgetful(Exact):
    """Labels above the bound do not count while others wait."""

    def label(self, place, wish):
        super().label(place, wish)
        if self.waiting and self.above:
            self.lost = getattr(self, "lost", 0) + 1

    @property
    def now(self):
        return super().now + self.step * getattr(self, "lost", 0)


@pytest.mark.parametrize("wrong", [WrongSign, Forgetful])
def test_a_wrong_update_would_be_noticed(wrong, rng):
    def duels():
        for _ in range(25):
            duel(wrong, *STREAMS[0], rng)

    with pytest.raises(AssertionError):
        duels()


@pytest.mark.parametrize("window", [0, 30])
def test_the_stream_is_the_rule(window, rng):
    """The library against the exact rule, with losses made to hurt: just above, if that can be."""
    X = rng.uniform(size=(120, 1))
    locus = quick(None).fit_losses(X, rng.exponential(size=120))
    (alpha, step), (other, _) = STREAMS
    stream = locus.adapt([float(alpha), float(other)], step=float(step), window=window)
    rules = Exact(alpha, step), Exact(other, step)
    tickets = []
    for t in range(60):
        decision = stream.bound(X[: rng.integers(1, 6)])
        tickets += [(decision.ticket, row, u) for row, u in enumerate(decision.bound)]
        for rule, at in zip(rules, decision.alpha, strict=True):
            assert float(rule.now) == pytest.approx(at, abs=1e-12)
            for _ in range(len(decision.bound)):
                rule.decide()
        while len(tickets) > 20 * (t % 4):
            place = int(rng.integers(len(tickets)))
            ticket, row, bound = tickets.pop(place)
            aim = bound[rng.integers(2)]
            z = aim + 0.5 if np.isfinite(aim) else rng.exponential()
            stream.update_losses(ticket, [z], rows=[row])
            for rule, u in zip(rules, bound, strict=True):
                rule.label(place, bool(z > u))
                rule.check()
    for rule, found in zip(rules, stream.promise(), strict=True):
        assert (found.labels, found.longest_wait) == (rule.labels, rule.longest)
        assert found.share_above == rule.above / rule.labels
        assert found.least <= found.share_above <= found.most
