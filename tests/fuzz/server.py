"""A process that imports everything and forks children, which load and score forged archives.

It never loads or scores itself: a thread pool of compiled code that has run does not survive a
fork. A child tries one archive after the other, up to the first that breaks it.
"""

import gc
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from enum import IntEnum
from pathlib import Path

import numpy as np

import archives_for_tests
from fuzz.forge import forge
from fuzz.targets import KEY, NEED_TORCH, SIGNED, TORCH, read_target, torch_predictor

CPU_SECONDS, WALL_SECONDS = 20, 120
MOST_MEMORY = 2**30  # bytes resident at the peak, libraries included
ADDRESSES = 2**34  # what is left to a try, so that a huge one does not take the machine with it


class Outcome(IntEnum):
    """What came of a forged archive; from ESCAPED on it is a hole."""

    REFUSED = 10
    SAME = 11
    OTHER = 12
    ERROR = 13
    ESCAPED = 14
    SIGNAL = 15
    HANG = 16
    MEMORY = 17


MEANING = {
    Outcome.REFUSED: "refused",
    Outcome.SAME: "same numbers",
    Outcome.OTHER: "other numbers",
    Outcome.ERROR: "error on scoring",
    Outcome.ESCAPED: "other error on loading",
    Outcome.SIGNAL: "signal",
    Outcome.HANG: "hang",
    Outcome.MEMORY: "above 1 GB",
}
HOLES = [outcome for outcome in Outcome if outcome >= Outcome.ESCAPED]


def import_everything():
    """Import what loading and scoring may import, and look up what they look up once."""
    import catboost  # noqa: F401 - so that no try imports it
    import lightgbm  # noqa: F401
    import onnxruntime  # noqa: F401
    import pandas as pd
    import xgboost  # noqa: F401

    from locuscore import engines
    from locuscore._archive.skops_models import import_skops
    from locuscore._archive.values import library_versions
    from locuscore._shared.frames import as_batch

    for name in set(engines.KEPT) - set(archives_for_tests.NEED_TORCH):
        getattr(engines, name)
    import_skops()
    library_versions()
    as_batch(np.zeros((1, 1)))
    as_batch(pd.DataFrame({"x": [0.0]}))


def forged(target, seed):
    """Return the forged archive that a seed stands for."""
    return forge(target.archive, f"{target.name} {seed}")


def attempts(target, archives, weaken="", is_shown=False):
    """Load and score archives in children, and return what came of each.

    `weaken` is code that a child runs before, to make a hole that must be noticed.
    """
    found = []
    with tempfile.NamedTemporaryFile(suffix=".locus") as file:
        while len(found) < len(archives):
            rest = archives[len(found) :]
            found += _in_one_child(target, rest, Path(file.name), weaken, is_shown)
    return found


def _in_one_child(target, archives, path, weaken, is_shown):
    """Try archives in turn up to the first that is a hole; others are not to notice what it did."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _limit(is_shown)
            exec(weaken, {})
            for archive in archives:
                path.write_bytes(archive)
                outcome = _timed(target, path)
                os.write(writing, bytes([outcome]))
                if outcome in HOLES:
                    break
        finally:  # whatever happens, there is one server
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as pipe:
        found = [Outcome(code) for code in pipe.read()]
    _, status = os.waitpid(child, 0)
    if len(found) < len(archives) and not {*found} & {*HOLES}:  # the next one has ended the child
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        is_late = number in (signal.SIGPROF, signal.SIGALRM)
        found.append(Outcome.HANG if is_late else Outcome.SIGNAL)
    return found


def _limit(is_shown):
    """Bound the addresses of this process, and keep it quiet."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    if not is_shown:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.dup2(2, 1)  # where the server answers


def _timed(target, path):
    """Load and score in bounded time; a busy machine does not make a hang."""
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
    outcome = _load_and_score(target, path)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Outcome.MEMORY if most > MOST_MEMORY else outcome


def _load_and_score(target, path):
    from locuscore import ArchiveError, Scorer

    given = {"predictor": torch_predictor()} if target.name == TORCH else {}
    # What nobody has changed is signed still.
    given |= {"key": KEY} if path.read_bytes() == target.archive and target.name in SIGNED else {}
    try:
        scorer = Scorer.load(path, **given)
    except BaseException as error:
        traceback.print_exc()
        if _is_memory(error):
            return Outcome.MEMORY
        return Outcome.REFUSED if isinstance(error, ArchiveError) else Outcome.ESCAPED
    try:
        scores = scorer(target.batch)
        found = {name: np.asarray(scores[name]) for name in scores}
    except BaseException as error:
        traceback.print_exc()
        return Outcome.MEMORY if _is_memory(error) else Outcome.ERROR
    return Outcome.SAME if _is_same(found, target.scores) else Outcome.OTHER


def _is_memory(error):
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__
    return error is not None


def _is_same(found, expected):
    if list(found) != list(expected):
        return False
    for name, values in expected.items():
        one, other = found[name], values
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if not (
            np.allclose(one, other, 1e-9, 0, True)
            if one.dtype.kind == "f"
            else (one == other).all()
        ):
            return False
    return True


def serve():
    """Answer requests, one a line, of a target with seeds or archives to try."""
    from locuscore import engines

    import_everything()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        target = read_target(Path(request["target"]))
        if target.name in NEED_TORCH:
            assert all(getattr(engines, name) for name in archives_for_tests.NEED_TORCH)
        archives = [Path(name).read_bytes() for name in request["archives"]]
        archives += [forged(target, seed) for seed in request["seeds"]]
        outcomes = attempts(target, archives, request["weaken"], request["is_shown"])
        sys.stdout.write(json.dumps(outcomes) + "\n")
        sys.stdout.flush()


class Server:
    """The other end of `serve`: the process in which archives are tried."""

    def __init__(self):
        code = "from fuzz import server; server.serve()"
        folders = [str(Path(__file__).parents[1]), *sys.path]
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, folders))},
        )

    def outcomes(self, target, seeds=(), archives=(), weaken="", is_shown=False):
        """What came of archives, and of those that seeds stand for, with the rows of a target."""
        paths = [str(path) for path in archives]
        request = {"target": str(target), "seeds": [*seeds], "archives": paths}
        request |= {"weaken": weaken, "is_shown": is_shown}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return [Outcome(code) for code in json.loads(self.process.stdout.readline())]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()
