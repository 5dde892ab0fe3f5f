"""No forged archive breaks the process that reads it: refused, or some numbers, or an error.

`make fuzz` tries many more; benchmarks/costs/RESULTS.md has its figures.
"""

import io
import json
import math
from collections import Counter
from importlib import import_module

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from fuzz.forge import read_zip, signed, write_zip
from fuzz.server import HOLES, MEANING, Outcome, Server
from fuzz.targets import CALIBRATIONS, FADING, PREDICTORS, TARGETS, read_target, write_target
from locuscore._archive.kinds import CALIBRATIONS as KEPT
from locuscore._archive.skops_models import OBJECTS
from locuscore._archive.skops_schema import SkopsFile

pytestmark = pytest.mark.extra

TRIES = 10  # for each of some sixty targets; `make fuzz` has hundreds


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def forest(tmp_path_factory):
    return write_target("random forest", tmp_path_factory.mktemp("forest"))


@pytest.mark.parametrize("name", TARGETS)
def test_forged_archives_break_nothing(name, server, tmp_path):
    target = write_target(name, tmp_path)
    sound = tmp_path / "sound.locus"
    sound.write_bytes(read_target(target).archive)
    first, *outcomes = server.outcomes(target, range(TRIES), [sound])
    assert first is Outcome.SAME
    holes = {seed: MEANING[outcome] for seed, outcome in enumerate(outcomes) if outcome in HOLES}
    assert not holes, f"repeat: PYTHONPATH=tests python -m fuzz --target '{name}' --seed <seed>"
    assert len(outcomes) == TRIES


def is_estimator(name):
    module, _, kind = name.rpartition(".")
    # Some classes are of an earlier scikit-learn.
    return issubclass(getattr(import_module(module), kind, object), BaseEstimator)


def test_every_estimator_that_is_trusted_is_forged(tmp_path):
    named = set()
    for name in PREDICTORS:
        for member, data in read_zip(read_target(write_target(name, tmp_path)).archive).items():
            if member.endswith(".skops"):
                named |= SkopsFile(data, OBJECTS).kinds
    estimators = {name for name in OBJECTS if is_estimator(name)}
    # The place where archives of 0.1.0 have them; they are the same class.
    assert estimators - named == {"locuscore.engines._boosting.BoostedTrees"}
    assert {f"locuscore._shared.boosting.Boosted{kind}" for kind in ("Classes", "Trees")} <= named


def test_every_calibration_is_forged(tmp_path):
    found = set()
    for name in [*CALIBRATIONS, FADING, "Forest, cross-fitted"]:
        members = read_zip(read_target(write_target(name, tmp_path)).archive)
        found.add(json.loads(members["scorer.json"])["locus"]["calibration_"]["kind"])
    assert found == {kind.ARCHIVE.kind for kind in KEPT}


# The twins: that it would notice.

LOADING = "import locuscore, os, signal\ndef load(path): {}\nlocuscore.Scorer.load = load"


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", Outcome.SIGNAL),
        ("os._exit(3)", Outcome.SIGNAL),
        ("{}['x']", Outcome.ESCAPED),
        ("exit()", Outcome.ESCAPED),
        ("b'x' * 2**30", Outcome.MEMORY),
        ("b'x' * 2**50", Outcome.MEMORY),
        ("signal.setitimer(signal.ITIMER_PROF, 0.1); max(iter(int, 1))", Outcome.HANG),
        ("raise locuscore.ArchiveError", Outcome.REFUSED),
        ("return lambda batch: {'bound_0.1': [1.0]}", Outcome.OTHER),
        ("return None", Outcome.ERROR),
    ],
)
def test_what_loading_does_is_noticed(code, outcome, server, forest):
    weaken = LOADING.format(code)
    assert server.outcomes(forest, range(1), weaken=weaken) == [outcome]


def with_a_tree_that_leads_outside(archive):
    members = read_zip(archive)
    for name in [name for name in members if name.endswith(".skops")]:
        parts = read_zip(members[name])
        for part in [part for part in parts if part.endswith(".npy")]:
            values = np.load(io.BytesIO(parts[part]))
            if "left_child" in (values.dtype.names or ()):
                values["left_child"][0] = 10**12
                file = io.BytesIO()
                np.save(file, values)
                parts[part] = file.getvalue()
        members[name] = write_zip(parts)
    return write_zip(signed(members))


NO_CHECK = "import locuscore._archive.skops_models as t\nt.check_fitted = lambda model: None"


def test_a_loader_without_its_check_is_noticed(server, forest, tmp_path):
    forged = tmp_path / "forged.locus"
    forged.write_bytes(with_a_tree_that_leads_outside(read_target(forest).archive))
    assert server.outcomes(forest, archives=[forged]) == [Outcome.REFUSED]
    assert server.outcomes(forest, archives=[forged], weaken=NO_CHECK) == [Outcome.SIGNAL]


NO_NUMBERS = """import locuscore._archive.xgboost_models as t
t.canonical_xgboost = lambda text, n_rounds=None: text"""


def test_a_reader_of_xgboost_without_its_check_is_noticed(server, tmp_path):
    target = write_target("xgboost", tmp_path)
    members = read_zip(read_target(target).archive)
    name = next(name for name in members if name.startswith("parts/") and name.endswith(".json"))
    model = json.loads(members[name])
    for tree in model["learner"]["gradient_booster"]["model"]["trees"]:
        tree["left_children"][0] = tree["right_children"][0] = 10**8
    members[name] = json.dumps(model).encode()
    forged = tmp_path / "forged.locus"
    forged.write_bytes(write_zip(signed(members)))
    assert server.outcomes(target, archives=[forged]) == [Outcome.REFUSED]
    assert server.outcomes(target, archives=[forged], weaken=NO_NUMBERS) == [Outcome.SIGNAL]


def test_random_changes_find_a_missing_check(server, forest):
    assert set(server.outcomes(forest, range(60), weaken=NO_CHECK)) & set(HOLES)


# The long run


def test_the_long_run_tries_every_target_alike():
    from benchmarks.costs.fuzz_archives import steps

    tried = {name: [] for name in TARGETS}
    for name, seeds in steps(20_000):
        tried[name] += seeds
    each = math.ceil(20_000 / len(TARGETS))
    assert all(seeds == list(range(each)) for seeds in tried.values())
    assert [name for name, _ in steps(20_000)[: len(TARGETS)]] == TARGETS


def test_its_page_counts_and_names_what_broke():
    from benchmarks.costs.fuzz_archives import section

    counts = {
        "one": Counter({Outcome.REFUSED: 3, Outcome.SIGNAL: 1}),
        "two": Counter({Outcome.SAME: 2000}),
    }
    text = section(counts, ["signal: --target 'one' --seed 7"])
    assert "| one | 4 | 3 | 0 | 0 | 0 | 0 | 1 | 0 | 0 |\n" in text
    assert "| **all** | 2,004 | 3 | 2,000 | 0 | 0 | 0 | 1 | 0 | 0 |\n" in text
    assert text.endswith("* signal: --target 'one' --seed 7\n")
