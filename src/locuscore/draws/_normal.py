"""Normal laws, their mixtures, and the gamma-envelope of mixtures."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.blocks import row_blocks
from locuscore.draws._base import ArrayDraws, RankedDraws
from locuscore.draws._inversion import LARGEST_BELOW_ONE, kth_largest
from locuscore.draws._smooth_inversion import invert_smooth

MOST_TRIALS = 8  # of an envelope, after which all its draws are inverted
FLOATS_AT_ONCE = 100_000  # of a temporary array that should stay in the processor's cache


@dataclass(frozen=True, repr=False)
class NormalDraws(ArrayDraws):
    """Normal laws: `location` and `scale`, each (n, S).

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import NormalDraws
    >>> draws = NormalDraws(np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3)))  # one row, three draws
    >>> draws.sf(np.array([[1.0]])).round(3)
    array([[0.159, 0.5  , 0.841]])
    """

    location: FloatArray
    scale: FloatArray

    arrays = ("location", "scale")

    def sf(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # the largest floats stand for infinity
            return ndtr((self.location - z) / self.scale)

    def isf(self, level: FloatArray) -> FloatArray:
        # Survival rounds to 1 some 8 deviations below the location; that is where level 1 ends.
        return self.location - self.scale * ndtri(np.minimum(level, LARGEST_BELOW_ONE))

    def affine(self, offset: float, factor: float) -> "NormalDraws":
        """Laws of ``offset + factor * Z``; factor is positive."""
        return NormalDraws(offset + factor * self.location, factor * self.scale)

    def average(self) -> "MixtureDraws":
        """The mean of the laws, a mixture with equal weights."""
        n, n_draws = self.shape
        # In full, not broadcast: sums must round alike for all rows and for some of them.
        weight = np.full((n, 1, n_draws), 1.0 / n_draws)
        return MixtureDraws(weight, self.location[:, None], self.scale[:, None], n_draws)


@dataclass(frozen=True, repr=False)
class MixtureDraws(ArrayDraws):
    """Mixtures of normal laws: `weight`, `location` and `scale`, each (n, S, K).

    The K components of a law are `repeats` versions, one after the other, of ``K / repeats`` kinds.
    Merging the versions of each kind gives a cheap law near to this one, from which its inversion
    starts.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import MixtureDraws
    >>> weight, location = np.array([[[0.5, 0.5]]]), np.array([[[0.0, 4.0]]])
    >>> MixtureDraws(weight, location, np.ones((1, 1, 2))).sf(np.array([[2.0]])).round(3)
    array([[0.5]])
    """

    weight: FloatArray
    location: FloatArray
    scale: FloatArray
    repeats: int = 1

    arrays = ("location", "weight", "scale")
    inverts_jointly = True

    def sf(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            standard = self.location - np.asarray(z)[:, :, None]
            standard /= self.scale
        ndtr(standard, out=standard)
        # Not a matrix product: that would round by the number of rows. Weights sum to about one.
        return np.minimum(np.einsum("nsk,nsk->ns", self.weight, standard), 1.0)

    def isf(self, level: FloatArray) -> FloatArray:
        level = np.broadcast_to(level, self.shape)
        # Every draw of every row is a law of its own to the search.
        return self._inverses(level.reshape(-1, 1)).reshape(self.shape)

    def joint_isf(self, level: FloatArray) -> FloatArray:
        return self._inverses(np.broadcast_to(level, (self.shape[0], level.shape[-1])))

    def affine(self, offset: float, factor: float) -> "MixtureDraws":
        """Laws of ``offset + factor * Z``; factor is positive."""
        location, scale = offset + factor * self.location, factor * self.scale
        return replace(self, location=location, scale=scale)

    def average(self) -> "MixtureDraws":
        """Pool the components of all draws, which is the mean of the laws."""
        n, n_draws = self.shape
        weight, location, scale = self._reshaped(n, 1, -1)
        # Draws are versions of the same components, so a kind merges across all of them.
        return MixtureDraws(weight / n_draws, location, scale, n_draws * self.repeats)

    def envelope(self, rank: IntArray) -> "EnvelopeDraws":
        """The rank-th largest survival of each row, inverted once instead of once per draw."""
        return EnvelopeDraws(self, rank)

    @cached_property
    def _flat(self) -> "MixtureDraws":
        """The same laws, one per row."""
        n, n_draws, k = self.location.shape
        return MixtureDraws(*self._reshaped(n * n_draws, 1, k), self.repeats)

    def _reshaped(self, *shape: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights, locations and scales in another shape."""
        return self.weight.reshape(shape), self.location.reshape(shape), self.scale.reshape(shape)

    def _take(self, rows: IntArray | slice) -> "MixtureDraws":
        return MixtureDraws(self.weight[rows], self.location[rows], self.scale[rows], self.repeats)

    def _inverses(self, level: FloatArray) -> FloatArray:
        """Inverses at m levels of each law, (laws, m)."""
        out = np.empty(level.shape)
        # About ten numbers are kept per law and level while they are searched for.
        for part in row_blocks(len(level), 10 * level.shape[1], floats=FLOATS_AT_ONCE):
            laws = self._flat._take(part)
            out[part] = invert_smooth(
                laws._sf, level[part], *laws._ends(level[part]), *laws._start(level[part])
            )
        return out

    def _sf(self, rows: IntArray, z: FloatArray) -> FloatArray:
        """Survival of the laws `rows` at one z each, a few at a time so that they stay in cache."""
        out = np.empty(len(rows))
        for part in row_blocks(len(rows), self.location.shape[2], floats=FLOATS_AT_ONCE):
            out[part] = self._take(rows[part]).sf(z[part, None])[:, 0]
        return out

    def _ends(self, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Places below and above the inverses of all components."""
        location, scale = self._flat.location[:, 0], self._flat.scale[:, 0]
        q = -ndtri(np.minimum(level, LARGEST_BELOW_ONE))
        # Which scale reaches farther depends on the sign of q.
        smallest, largest = (f(scale, axis=1, keepdims=True) * q for f in (np.min, np.max))
        low = location.min(axis=1, keepdims=True) + np.minimum(smallest, largest)
        return low, location.max(axis=1, keepdims=True) + np.maximum(smallest, largest)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of each law, (laws, 1)."""
        # As many versions as components: a single kind, merged into one.
        merged = replace(self._flat, repeats=self.weight.shape[2])._merged()
        return merged.location[:, 0], merged.scale[:, 0]

    def _merged(self) -> "MixtureDraws":
        """One component per kind, with the mean and the variance of all its versions."""
        n, _, k = self.location.shape
        weight, location, scale = self._reshaped(n, self.repeats, k // self.repeats)
        total = weight.sum(axis=1, keepdims=True)
        # A kind without weight has no moments; any will do, as long as they are numbers.
        share = weight / np.where(total > 0, total, 1.0)
        centre = np.einsum("nrk,nrk->nk", share, location)[:, None]
        variance = np.einsum("nrk,nrk->nk", share, (location - centre) ** 2 + scale**2)[:, None]
        return MixtureDraws(total, centre, np.sqrt(variance))

    def _start(self, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A guess of the inverse, and how fast it grows with the normal quantile."""
        q = ndtri(np.minimum(level, LARGEST_BELOW_ONE))
        # Nothing to merge, or all into one: the normal law with the same moments is the guess.
        if self.repeats in (1, self.location.shape[2]):
            centre, spread = self._moments()
            return centre - spread * q, np.broadcast_to(spread, level.shape)
        # The merged law is cheap to invert; twice, so that its slope comes along.
        nearby = np.minimum(ndtr(q + 0.05), LARGEST_BELOW_ONE)
        both = self._merged()._inverses(np.hstack([level, nearby]))
        guess, beside = np.hsplit(both, 2)
        with np.errstate(invalid="ignore"):
            return guess, np.abs(guess - beside) / 0.05


@dataclass(frozen=True, repr=False)
class EnvelopeDraws(RankedDraws):
    """The `rank`-th largest survival of each row of a stack of mixtures; `rank` is (n,).

    A mixture costs a search to invert, so that of one draw is searched for, not those of all.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import EnvelopeDraws, MixtureDraws
    >>> location = np.array([[[0.0, 1.0], [2.0, 3.0]]])  # one row, two draws, two components
    >>> draws = MixtureDraws(np.full((1, 2, 2), 0.5), location, np.ones((1, 2, 2)))
    >>> EnvelopeDraws(draws, np.array([1])).sf(np.array([[2.0]])).round(3)
    array([[0.671]])
    """

    draws: MixtureDraws

    inverts_jointly = True

    def isf(self, level: FloatArray) -> FloatArray:
        return self.joint_isf(np.broadcast_to(level, self.shape))

    def joint_isf(self, level: FloatArray) -> FloatArray:
        """Inverses at m levels; every third level corrects the guesses for the others."""
        n, n_draws = self.draws.shape
        level = np.broadcast_to(level, (n, level.shape[-1]))
        centre, spread = (part.reshape(n, n_draws) for part in self.draws._flat._moments())
        # Neighbouring levels have neighbouring inverses, so they are solved in order.
        order = np.argsort(level, axis=1)
        level = np.take_along_axis(level, order, axis=1)
        q = ndtri(np.minimum(level, LARGEST_BELOW_ONE))
        # The rank-th largest of normal quantiles is right but for the shape of the mixtures.
        guess = np.hstack([kth_largest(centre - spread * t[:, None], self.rank) for t in q.T])
        solved, out = self._solve(level[:, ::3], guess[:, ::3]), np.empty(level.shape)
        # What the guess was off by changes slowly with the level. Level 0 has inf - inf there.
        with np.errstate(invalid="ignore"):
            shift = np.nan_to_num(solved - guess[:, ::3])
        rest = np.flatnonzero(np.arange(level.shape[1]) % 3)
        before, share = rest // 3, rest % 3 / 3
        after = np.minimum(before + 1, shift.shape[1] - 1)
        guess[:, rest] += (1 - share) * shift[:, before] + share * shift[:, after]
        np.put_along_axis(out, order[:, ::3], solved, axis=1)
        others = self._solve(level[:, rest], guess[:, rest])
        np.put_along_axis(out, order[:, rest], others, axis=1)
        return out

    def _solve(self, level: FloatArray, guess: FloatArray) -> FloatArray:
        """Find the draw whose inverse is the answer.

        At a trial, take the draw with the rank-th largest survival there; its own inverse is the
        next trial, until it has that rank itself.
        """
        n_draws = self.draws.shape[1]
        answer, at, draw = guess.flatten(), level.ravel(), np.full(guess.size, -1)
        pair = np.flatnonzero(np.isfinite(answer))
        for _ in range(MOST_TRIALS):
            rows = pair // level.shape[1]
            survival, following, own = self._ranked(rows, answer[pair], draw[pair])
            # Not above the level, and not below the draw that comes down to it here.
            is_open = (survival >= at[pair]) | (survival < own)
            pair, rows, following = pair[is_open], rows[is_open], following[is_open]
            if not len(pair):
                break
            draw[pair] = following
            laws = self.draws._flat._take(rows * n_draws + following)
            answer[pair] = laws._inverses(at[pair, None])[:, 0]
        else:
            # Where two draws cross at the answer the trials may alternate: invert all draws.
            rows = pair // level.shape[1]
            inverses = self.draws._take(rows).isf(at[pair, None])
            answer[pair] = kth_largest(inverses, self.rank[rows])[:, 0]
        return answer.reshape(level.shape)

    def _ranked(
        self, rows: IntArray, z: FloatArray, draw: IntArray
    ) -> tuple[FloatArray, IntArray, FloatArray]:
        """Survival of the ranked draw of each row at z, which draw that is, and that of `draw`."""
        survival, index, own = np.empty(len(rows)), np.empty_like(rows), np.empty(len(rows))
        for part in row_blocks(len(rows), self.draws.location[0].size, floats=FLOATS_AT_ONCE):
            values = self.draws._take(rows[part]).sf(z[part, None])
            ranked = kth_largest(values, self.rank[rows[part]])
            survival[part], index[part] = ranked[:, 0], np.argmax(values == ranked, axis=1)
            own[part] = values[np.arange(len(values)), draw[part]]
        return survival, index, np.where(draw < 0, np.inf, own)
