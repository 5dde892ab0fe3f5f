"""The alarms of other packages, as the benchmark computes them, are those of the packages."""

import numpy as np
import pytest

pytestmark = pytest.mark.extra
N = 300


@pytest.fixture(scope="module")
def p():
    return np.random.default_rng(0).uniform(size=N) ** 1.3


def test_counts_before_are_those_of_a_plain_count():
    from benchmarks.watch import compiled

    values = np.random.default_rng(1).integers(0, 20, size=100) / 20
    ordered = np.sort(values)
    ranks = [np.searchsorted(ordered, values, side) for side in ("left", "right")]
    less, equal = compiled._counts_before.py_func(*ranks, len(values))
    for i, value in enumerate(values):
        assert less[i] == np.sum(values[:i] < value)
        assert equal[i] == np.sum(values[:i] == value)


def test_martingales_of_crepes(p):
    from crepes.martingales import SimpleJumper, SleeperDrifter, SleeperStayer

    from benchmarks.watch import compiled

    ours = (
        compiled.jumper.py_func(p, np.linspace(-1, 1, 5), False),
        compiled.stayer.py_func(p),
        compiled.drifter.py_func(p),
    )
    for own, theirs in zip(ours, (SimpleJumper(), SleeperStayer(), SleeperDrifter()), strict=True):
        np.testing.assert_allclose(own, np.log(theirs.apply(p)), atol=1e-9)


def test_martingales_of_mapie(p):
    from mapie.exchangeability_testing import OnlineMartingaleTest

    from benchmarks.watch import compiled

    jumper = OnlineMartingaleTest(task="regression", warn=False)
    theirs = [jumper.update_simple_jumper_martingale(value) for value in p]
    own = compiled.jumper.py_func(p, np.array([-1.0, 0.0, 1.0]), True)
    np.testing.assert_allclose(own, np.log(theirs), atol=1e-9)

    plugin = OnlineMartingaleTest(task="regression", test_method="plugin_martingale", warn=False)
    theirs = []
    for value in p[:200]:
        first = not plugin.pvalue_history  # which has no density yet
        theirs.append(1.0 if first else plugin.update_plugin_martingale(float(value)))
        plugin.pvalue_history.append(float(value))
    own = compiled.plugin.py_func(p[:200])
    assert np.ptp(own) > 0.1
    np.testing.assert_allclose(own, np.log(theirs), atol=0.01)


def test_risk_monitoring_of_mapie():
    from mapie.exchangeability_testing import RiskMonitoring
    from mapie.risk_control import BinaryRisk

    from benchmarks.watch.rivals import RIVALS
    from benchmarks.watch.streams import Setting, Streams

    rng = np.random.default_rng(2)
    bits = rng.uniform(size=(2, 400)) < 0.3
    method = RIVALS["MAPIE RiskMonitoring"]
    setting = Setting("accepted", horizon=400)
    path = method.path(Streams(setting, bits))
    risk = BinaryRisk(lambda y, _: y == 1, lambda y, _: np.ones(len(y), dtype=bool), False)
    for row, own in zip(bits, path, strict=True):
        theirs = RiskMonitoring(risk, threshold=setting.promised, warn=False)
        theirs.update(row.astype(int), row.astype(int))
        is_above = theirs.online_risk_lower_bound_sequence_history > setting.promised
        assert is_above.any()
        assert np.argmax(is_above) == np.argmax(own > method.nominal(setting))


def test_a_tuned_threshold_is_reached_by_the_share_delta():
    from benchmarks.watch.power import tuned_threshold

    values = np.random.default_rng(3).normal(size=1000)
    assert np.mean(values >= tuned_threshold(values)) == 0.05
    assert tuned_threshold(np.array([0.0] * 94 + [1.0] * 4 + [2.0] * 2)) == 1.0


def test_delays_count_from_the_change_and_leave_out_early_alarms():
    from benchmarks.watch.power_page import median_delay

    record = {"change": 10, "tuned": [5, 12, 30, None, 14]}
    assert median_delay(record, "tuned") == (4.0, 0.75, 0.2)
    assert median_delay({"change": 0, "tuned": [None, None, 3]}, "tuned")[0] == np.inf
