"""Our own alarms as statistics of streams: the evidence after each row, as a logarithm."""

from collections.abc import Callable

import numpy as np

from benchmarks.watch.rivals import DELTA, Method, ville
from benchmarks.watch.streams import Setting, Streams
from locuscore._laws.calibration import conformal_rank
from locuscore.watch._evidence.alarm import BetsAlarm
from locuscore.watch._evidence.betting import MeanBets
from locuscore.watch._evidence.evidence import Evidence
from locuscore.watch._evidence.ranks import RankAlarm
from locuscore.watch._evidence.urn import UrnAlarm

ALPHAS = (0.1, 0.5)  # of the bounds of a scorer
CLAIMS = len(ALPHAS) + 1  # their coverage, and exchangeability


def evidence_path(alarm: Evidence, values: np.ndarray) -> np.ndarray:
    """The evidence after each row; minus infinity where it did not rise."""
    out = np.full(len(values), -np.inf)

    def see(rows: np.ndarray, log_values: np.ndarray) -> None:
        out[rows - 1] = log_values

    alarm._see = see  # type: ignore[method-assign]  # an alarm keeps the largest value only
    alarm.update(values)  # type: ignore[attr-defined]
    return out


def each(of_stream: Callable[[Streams, int], np.ndarray]) -> Callable[[Streams], np.ndarray]:
    return lambda streams: np.stack([of_stream(streams, i) for i in range(len(streams.bits))])


def urn(alpha: float | None = None) -> Callable[[Streams, int], np.ndarray]:
    """The alarm for coverage at alpha, by default the promised one."""

    def path(streams: Streams, i: int) -> np.ndarray:
        assert streams.reference is not None
        assert streams.tails is not None
        n, level = streams.setting.n2, streams.setting.promised if alpha is None else alpha
        k = conformal_rank(n, level)
        miss = streams.tails[i] < -np.sort(-streams.reference[i])[k - 1]
        return evidence_path(UrnAlarm(n + 1 - k, k, DELTA), miss)

    return path


def certificate(streams: Streams, i: int) -> np.ndarray:
    """The alarm for the share of bad among the accepted."""
    alarm = BetsAlarm(MeanBets(streams.setting.promised), DELTA)
    return evidence_path(alarm, streams.bits[i])


def ranks(streams: Streams, i: int) -> np.ndarray:
    """The alarm for exchangeability where tails are known: bins end at those of D2."""
    assert streams.reference is not None
    assert streams.tails is not None
    bins = np.searchsorted(np.sort(streams.reference[i]), streams.tails[i])
    counts = [1] * streams.setting.n2 + [0]
    return evidence_path(RankAlarm(counts, (), DELTA), bins)


def binned_ranks(streams: Streams, i: int) -> np.ndarray:
    """The alarm for exchangeability where bounds at two alphas are known."""
    assert streams.reference is not None
    assert streams.tails is not None
    n = streams.setting.n2
    ks = [conformal_rank(n, alpha) for alpha in ALPHAS]
    levels = -np.sort(-streams.reference[i])[np.array(ks) - 1]
    bins = (streams.tails[i] >= levels[:, None]).sum(axis=0)
    counts = np.diff([0, *(n - k for k in ks), n])
    return evidence_path(RankAlarm(counts.tolist(), ALPHAS, DELTA), bins)


def whole_watch(streams: Streams, i: int) -> np.ndarray:
    """All claims of a scorer with bounds at two alphas, which share delta."""
    parts = [urn(alpha)(streams, i) for alpha in ALPHAS] + [binned_ranks(streams, i)]
    return np.max(parts, axis=0)


def shared(_: Setting) -> float:
    return float(np.log(CLAIMS / DELTA))


OURS = {
    "ours, coverage": Method(each(urn()), ville),
    "ours, ranks": Method(each(ranks), ville, share=0.2),
    "ours, whole watch": Method(each(whole_watch), shared, share=0.2),
    "ours, certificate": Method(each(certificate), ville, ("accepted",)),
}
