"""A fork after fitting and scoring in several threads: the child scores, and the same numbers."""

import importlib
import os
import subprocess
import sys

import pytest

from archives_for_tests import LOSS_MODELS, NEED_EXTRAS
from locuscore._shared import fork

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")

SCRIPT = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
n_threads = []
count = lambda: n_threads.append(len(os.listdir("/proc/self/task")))
is_linux = os.path.isdir("/proc/self/task")
if is_linux:
    os.register_at_fork(before=count)  # what comes first is called last

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.neighbors import KNeighborsRegressor
from archives_for_tests import loss_model, rows, small_scorer
from locuscore import KNNGamma
from locuscore._shared import fork

rng = np.random.default_rng(0)
X, y = rows(160)
wide = np.hstack([X, rng.normal(size=(160, 20))])  # neighbours of these are found by brute force

def lightgbm():
    from lightgbm import LGBMRegressor
    return LGBMRegressor(n_estimators=3, n_jobs=2, verbose=-1).fit(X, y)

def onnx():
    from skl2onnx import to_onnx
    from locuscore._archive.predictor_files import read_onnx
    forest = RandomForestRegressor(50, random_state=0).fit(X, y)
    return read_onnx(to_onnx(forest, X[:1].astype(np.float32)).SerializeToString())

PREDICTORS = {
    "boosting": lambda: HistGradientBoostingRegressor(max_iter=3).fit(X, y),
    "neighbours": lambda: KNeighborsRegressor(algorithm="brute").fit(X, y),
    "forest": lambda: RandomForestRegressor(3, n_jobs=2).fit(X, y),
    "lightgbm": lightgbm,
    "onnx": onnx,
}

def old_runtimes(n_modules):
    class Old:
        def __init__(self, runtime):
            self.omp_set_num_threads = runtime.omp_set_num_threads
    return [Old(runtime) for runtime in found(n_modules)]

found = fork._found

def served(scorer):
    # An application that was made, and asked, before the fork.
    import asyncio
    import httpx
    from locuscore.service import create_app

    app = create_app(scorer)

    async def ask(batch):
        here = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=here, base_url="http://localhost") as client:
            return (await client.post("/score", json={"rows": batch.tolist()})).json()["rows"]

    def score(batch):
        found = asyncio.run(ask(batch))
        return {"bound_0.1": np.array([row["bound_0.1"] for row in found])}

    return score

def made(name):
    fork._found = old_runtimes if name == "old runtime" else found
    if name in ("wide", "old runtime"):
        return small_scorer(X=wide, y=y, gamma=KNNGamma(k=7)), np.tile(wide, (2, 1))
    batch = np.tile(X, (2, 1))
    if name == "service":
        return served(small_scorer(**loss_model("Scale"))), batch
    if name in PREDICTORS:
        return small_scorer(PREDICTORS[name]()), batch
    return small_scorer(**loss_model(name)), batch

def forked(name):
    scorer, batch = made(name)
    expected = scorer(batch)
    if is_linux:
        count()
    child = os.fork()
    if not child:
        signal.alarm(600)  # ends a child that hangs
        scores = scorer(batch)
        os._exit(0 if all((scores[k] == v).all() for k, v in expected.items()) else 3)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, (name, code)
    again = scorer(batch)
    assert all((again[k] == v).all() for k, v in expected.items()), name

def refuse_polars():
    # Its threads cannot be let go: one sentence, where it would hang.
    import polars
    from locuscore import prediction_column
    frame = polars.DataFrame(X, schema=["a", "b", "c"])
    scorer = small_scorer(prediction_column("a"), frame, y)
    scorer(frame)
    child = os.fork()
    if not child:
        signal.alarm(600)
        try:
            scorer(frame)
        except RuntimeError as error:
            os._exit(0 if "forked after its parent had used polars" in str(error) else 4)
        os._exit(3)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, ("polars", code)

if "polars" in sys.argv:
    refuse_polars()
    n_threads.clear()
for name in sys.argv[1:]:
    if name != "polars":
        forked(name)
before, at_fork = n_threads[::2], n_threads[1::2]
print(max(b - a for a, b in zip(at_fork, before, strict=True)) if is_linux else 1)
"""
CORE = [name for name in LOSS_MODELS if not name.startswith(NEED_EXTRAS)]
EXTRA = [name for name in LOSS_MODELS if name not in CORE]


def most_threads_let_go(*names):
    """Score, fork and score in the child, for each name; in a process with two threads."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "passive",  # quicker where others use the cores
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", SCRIPT, *names]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_engines_and_predictors_score_after_a_fork():
    # With one core there are no threads to let go, and nothing to hang. A runtime of before GCC 9,
    # which scikit-learn 1.7 brings, cannot let them go: there the child uses one thread.
    importlib.import_module("sklearn.ensemble")  # loads the runtime
    can = any(hasattr(runtime, "omp_pause_resource_all") for runtime in fork.gnu_openmp())
    least = 1 if can and (os.cpu_count() or 1) > 1 else 0
    predictors = ("boosting", "neighbours", "forest")
    assert most_threads_let_go(*CORE, *predictors, "wide", "old runtime") >= least


@pytest.mark.extra
def test_those_of_extras_score_after_a_fork():
    most_threads_let_go(*EXTRA, "lightgbm", "onnx", "service", "polars")
