"""Every calibration of the same rows has a digest of its own, which an archive keeps."""

import numpy as np
import pytest

from calibrations_for_tests import CALIBRATIONS, calibrated
from helpers import raises
from locuscore import Locus, Score, Scorer
from locuscore.calibration import ByGroup
from locuscore.engines import Scale
from service_for_tests import frame, frame_scorer

pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def every():
    X, y = frame(300)
    g = frame_scorer().locus.predictor_
    found = {name: calibrated(name, X, y, g) for name in CALIBRATIONS}
    return found | {"marginal": Locus(g, engine=Scale(), random_state=0).fit(X, y)}


def test_no_two_are_alike(every):
    digests = [locus.calibration_digest_ for locus in every.values()]
    assert len(set(digests)) == len(digests) == len(CALIBRATIONS) + 1


@pytest.mark.parametrize("name", [*CALIBRATIONS, "marginal"])
def test_an_archive_keeps_it(every, name, tmp_path):
    path, locus = tmp_path / "x.locus", every[name]
    told = {"weights": CALIBRATIONS[name][0]().weights} if name == "weights" else {}
    Scorer(locus, locus.tau_rule(1.0, 0.2), alphas=(0.2,)).save(path)
    assert Scorer.load(path, **told).locus.calibration_digest_ == locus.calibration_digest_


def test_a_rule_of_another_calibration_is_refused(every):
    X, y = frame(200, seed=3)
    rule = every["by group"].certify(1.0, 0.5, 0.2, X, y, of=Score.bound(0.2))
    assert np.asarray(every["by group"].accepts(X, rule)).shape == (200,)
    for name, locus in every.items():
        if name != "by group":
            with raises(ValueError, "another calibration"):
                Scorer(locus, rule)


def test_groups_of_another_size_are_another_calibration(every):
    X, y = frame(300)
    other = Locus(
        every["marginal"].predictor_, engine=Scale(), calibration=ByGroup("state"), random_state=0
    ).fit(X, y)
    assert other.calibration_digest_ != every["by group"].calibration_digest_
