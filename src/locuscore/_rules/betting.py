"""The test of "the mean loss is above m" as a game of bets against it, for losses in [0, 1].

After Waudby-Smith and Ramdas (2024): start with capital v in (0, 1) and, before each loss x is
seen, bet an amount b on its being below m, ``v <- v + b * (m - x)``. If b depends on the past alone
and never risks more than v, the capital is a nonnegative supermartingale under the claim, and so is
capital stopped when it reaches TOP.

The bets copy the hedge of a digital option, the fixed-sample test as a game: with r rounds left and
s an estimate of the standard deviation from the past losses, ::

    b = min( phi(Phi^-1(v)) / (s sqrt(r)),  v / (1 - m),  (1 - v) / m )

The estimate begins with imagined losses of 0 and 1 with mean m, the largest variance there is:
IMAGINED of the rarer value, and as many of the other as the mean needs. With fewer, the bets are
too large until the first large loss is seen.

**Several orders.** The game is played in ORDERS random orders of the losses, each from ``SHARE *
delta``. The claim is rejected at level delta when the stopped capitals of the first k orders are at
least SHARE on average, for any k from FIRST on. Under the claim each is at most its start in
expectation, and random orders are exchangeable given the losses; so the largest of these averages
reaches SHARE with probability at most delta (Markov's inequality for exchangeable variables, Ramdas
and Manole 2023). This holds for stopped capital only; averages of the largest capital so far would
not do. A small k would leave much to the luck of few orders, hence FIRST.

**What is exact, and what is taken for random.** With orders drawn at random the level is exact, for
every n and every law. Here they come from a generator seeded by a digest of the sorted losses, so
that nobody can try seeds until one passes: the same losses, in any order, give the same answer.
The level then rests on the generator's orders being, on average over samples, as good as random
ones. For losses of 0 and 1 our tests add up the level exactly, over all samples.

**Nested.** As a function of v each term of b is concave and 0 where v is 0 or 1, so the slope of b
lies between -1 / m and 1 / (1 - m); since x - m lies between -m and 1 - m, the next capital grows
with v. It grows with m too: ``(m - x) / s`` does, because as a function of m the slope of log s
lies between ``-1 / (2 (1 - m))`` and ``1 / (2 m)``. Capital that is set to TOP once it gets there
grows with both as well. Hence the smallest rejected delta is a p-value, the smallest rejected m an
upper confidence bound, and the two agree.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy.special import ndtri

from locuscore._protocols import BoolArray, FloatArray

ORDERS = 20  # in which the game is played
FIRST = 5  # averages are over this many orders or more
SHARE = 0.75  # about the share of the orders that must succeed; the rest of delta is not spent
TOP = 0.99  # success: a capped bet would only approach 1
IMAGINED = 2.0  # large losses before the first, among others of 0
DIGITS = 2.0**40  # of the losses, in the digest that seeds their orders
ROUNDS, MOST_ROUNDS = 30, 10_000  # times sqrt(n): more losses are played in blocks of averages
SMALLEST_P = 1e-8
TINY = float(np.finfo(np.float64).tiny)
SQRT_2_PI = math.sqrt(2 * math.pi)
LEVELS, LEVEL_PASSES = 3, 8  # tried at once; each pass narrows the bracket by one more than these
MEANS, MEAN_PASSES = 16, 7


class Games(NamedTuple):
    """Several games in several orders, arrays of shape (rounds, games, orders).

    `losses`, or means of blocks of them; `squares`, the sum of squares of the past losses about
    their mean; `past`, their number less one; `left`, the rounds left over the losses in a round.
    """

    losses: FloatArray
    squares: FloatArray
    past: FloatArray
    left: FloatArray

    @classmethod
    def of(cls, samples: Sequence[FloatArray]) -> Self:
        """One game per sample; shorter ones are filled up with rounds in which nothing is bet."""
        rounds = [_rounds(in_orders(x)) for x in samples]
        most = max((len(losses) for losses, *_ in rounds), default=0)
        shape = (most, len(rounds), ORDERS)
        one = (most, len(rounds), 1)  # the same in all orders
        # With infinitely many rounds left the bet is 0.
        games = cls(np.zeros(shape), np.zeros(shape), np.zeros(one), np.full(one, np.inf))
        for j, played in enumerate(rounds):
            for whole, part in zip(games, played, strict=True):
                whole[: len(part), j] = part
        return games


def p_values(games: Games, m: float) -> FloatArray:
    """P-value of each game, rounded up."""
    columns = np.arange(games.losses.shape[1])
    below, above = np.full(len(columns), SMALLEST_P), np.ones(len(columns))
    # What is rejected at a level is rejected at every higher one, so a bracket can be narrowed; its
    # upper end is always rejected, or 1.
    for _ in range(LEVEL_PASSES):
        levels = np.geomspace(below, above, LEVELS + 2)
        is_rejected = rejected(games, m, levels[1:-1])
        first = np.where(is_rejected.any(axis=0), is_rejected.argmax(axis=0), LEVELS)
        below, above = levels[first, columns], levels[first + 1, columns]
    return above


def upper_bound(x: FloatArray, delta: float) -> float:
    """Smallest mean that is rejected, rounded up."""
    games = Games.of([x])
    below, above = 0.0, 1.0
    # A larger m is rejected whenever a smaller one is. The bracket begins at the largest m that is
    # kept, which errs on the safe side should rounding break the order.
    for _ in range(MEAN_PASSES):
        m = np.linspace(below, above, MEANS + 2)
        kept = np.flatnonzero(~rejected(games, m[1:-1], np.array(delta)))
        last = int(kept[-1]) + 1 if len(kept) else 0
        below, above = float(m[last]), float(m[last + 1])
    return above


def rejected(games: Games, m: float | FloatArray, delta: FloatArray) -> BoolArray:
    """Whether the claim "mean above m" is rejected, for each game and each level."""
    capital = stopped_capital(games, m, delta)
    # Averages over the first k orders, for every k: exchangeable orders allow their maximum.
    averages = capital.cumsum(axis=-1) / np.arange(1, capital.shape[-1] + 1)
    return np.asarray(averages[..., FIRST - 1 :].max(axis=-1) >= SHARE)


def stopped_capital(games: Games, m: float | FloatArray, delta: FloatArray) -> FloatArray:
    """Stopped capital in each order; under the claim ``SHARE * delta`` at most, on average."""
    shape = np.broadcast_shapes(np.shape(delta), np.shape(m), games.losses.shape[1:2])
    limit = np.asarray(m)[..., None]
    start = SHARE * np.asarray(delta)[..., None]
    v = np.broadcast_to(start, (*shape, games.losses.shape[2])).copy()
    for x, squares, past, left in zip(*games, strict=True):
        spread = np.sqrt(_variance(squares, past, limit) * left)
        # Once at the top, capital stays there: what is averaged is stopped, never a maximum.
        v = np.where(v >= TOP, TOP, _after_round(v, x, spread, limit))
    return np.minimum(v, TOP)


def _variance(squares: FloatArray, past: FloatArray, m: FloatArray) -> FloatArray:
    """Estimate of the variance from the past losses and the imagined ones."""
    rare = np.minimum(m, 1 - m)
    # Losses of 0 and 1 with mean m have variance m (1 - m); there are IMAGINED / rare of them.
    return np.asarray((IMAGINED * (1 - rare) + squares) / (IMAGINED / rare + past))


def _after_round(v: FloatArray, x: FloatArray, spread: FloatArray, m: FloatArray) -> FloatArray:
    """Capital after one round; `spread` is the standard deviation of the sum of those left."""
    # TINY keeps the normal quantile finite where the capital is gone; the caps then bet nothing.
    hedge = np.exp(-0.5 * ndtri(np.maximum(v, TINY)) ** 2) / (SQRT_2_PI * spread)
    # The first cap keeps capital from falling below 0 (at x = 1), the second from passing 1 (at 0).
    bet = np.minimum(hedge, np.minimum(v / (1 - m), (1 - v) / m))
    return np.minimum(np.maximum(v + bet * (m - x), 0.0), 1.0)  # holds already, up to rounding


def rows_without_loss(m: float, delta: float) -> float:
    """How many losses of 0 reject "mean above m": a round multiplies capital by ``1 / (1 - m)``."""
    return math.log(TOP / (SHARE * delta)) / -math.log1p(-m)


def generator_seeded_by(*columns: FloatArray) -> np.random.Generator:
    """A generator seeded by a digest of columns; sort the rows first, to forget their order."""
    digest = hashlib.sha256()
    # Rounded, so that losses that differ by rounding errors have the same orders.
    for column in columns:
        digest.update(np.rint(np.clip(column, -1e6, 1e6) * DIGITS).astype("<f8").tobytes())
    return np.random.default_rng(int.from_bytes(digest.digest()[:16], "little"))


def in_orders(x: FloatArray) -> FloatArray:
    """The losses in several random orders, (orders, n), whatever the order in which they came."""
    ascending = np.sort(x)
    return generator_seeded_by(ascending).permuted(np.tile(ascending, (ORDERS, 1)), axis=1)


def _rounds(x: FloatArray) -> tuple[FloatArray, ...]:
    """The parts of `Games` for one game, from the losses in each order, (orders, n).

    Very many losses are played in blocks. A block's mean has the mean and the support of its
    losses, but no more may be bet on it than on a single loss; so blocks are kept small.
    """
    n = x.shape[1]
    rounds = min(n, int(ROUNDS * np.sqrt(n)), MOST_ROUNDS)
    edges = np.linspace(0, n, rounds + 1).astype(np.int64)
    size, past = np.diff(edges), edges[:-1]
    # Sums over all losses before a round, so that its bet depends on the past alone.
    sums = np.cumsum([x, x * x], axis=2)
    moments = np.concatenate([np.zeros((2, len(x), 1)), sums], axis=2)[:, :, edges]
    first, second = moments[:, :, :-1]
    squares = np.maximum(second - first**2 / np.maximum(past, 1), 0.0)
    # The mean of a block varies less than a single loss, by the number of losses in it.
    left = np.arange(rounds, 0, -1) / size
    others = np.maximum(past - 1.0, 0.0)
    return (np.diff(moments[0]) / size).T, squares.T, others[:, None], left[:, None]
