"""Small servers on loopback, and clients, that several test files share."""

import contextlib
import functools
import json
import re
import subprocess
import sys
import threading
import time

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from archives_for_tests import loss_model
from helpers import LONGEST_WAIT
from locuscore import Locus, Scorer

ARROW = "application/vnd.apache.arrow.stream"
SERVE = """
import sys
from locuscore.service import Settings, serve
settings = eval(sys.argv[2])
serve(sys.argv[1], port=0, settings=settings)
"""


def frame(n=200, seed=0):
    """Rows with numbers, whole numbers, text and categories."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "size": rng.uniform(size=n),
            "rooms": rng.integers(1, 6, size=n),
            "town": rng.choice(["north", "south", "west"], size=n),
            "state": pd.Categorical(rng.choice(["new", "old"], size=n)),
        }
    )
    noise = np.where(X["town"] == "north", 0.1, 1.0) * rng.normal(size=n)
    return X, X["size"] + 0.2 * X["rooms"] + noise


@functools.cache  # some take seconds to fit; a scorer does not change
def frame_scorer(alphas=(0.1, 0.25), seed=0, model="Forest"):
    X, y = frame(300, seed)
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    g = make_pipeline(
        make_column_transformer((codes, ["town", "state"]), remainder="passthrough"), Ridge()
    ).fit(X, y)
    locus = Locus(g, random_state=seed, **loss_model(model)).fit(X, y)
    return Scorer(locus, locus.tau_rule(tau=0.5, alpha=0.2), alphas=alphas)


def json_rows(X):
    return json.loads(X.to_json(orient="records", double_precision=15))


def arrow_stream(table, **options):
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def read_stream(content):
    import pyarrow as pa

    return pa.ipc.open_stream(content).read_all()


def assert_scores(answer, expected):
    """JSON rows against the frame that the scorer gives in memory."""
    import pandas as pd

    got = pd.DataFrame(answer["rows"])
    for name in expected.columns:
        if name == "flag":
            assert (got[name] == expected[name]).all()
            continue
        wanted = expected[name].to_numpy()
        infinite = np.isinf(wanted)
        if f"{name}_is_infinite" in got:
            assert (got[f"{name}_is_infinite"] == infinite).all()
            assert got[name].isna().equals(pd.Series(infinite))
        values = got[name].to_numpy(dtype=float)[~infinite]
        np.testing.assert_allclose(values, wanted[~infinite], rtol=1e-9, atol=0)


@contextlib.contextmanager
def running(source, settings=None, **options):
    """A client of a service that runs in a thread; stopped at the end."""
    import httpx
    import uvicorn

    from locuscore.service import Settings, create_app
    from locuscore.service._server import configured

    app = create_app(source, settings, **options)
    at = {"host": "127.0.0.1", "port": 0, "log_level": "critical"}
    config = configured(app, settings or Settings(), **at)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONGEST_WAIT) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(LONGEST_WAIT)
        assert not thread.is_alive()


@contextlib.contextmanager
def process(path, settings="None"):
    """A service in a process of its own, and its address; killed at the end."""
    command = [sys.executable, "-c", SERVE, str(path), settings]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for line in child.stderr:
            found = re.search(r"running on (http://127\.0\.0\.1:\d+)", line)
            if found:
                break
        else:
            raise AssertionError("the service did not start")
        # Nobody reads the log any more, and a full pipe would stop the service.
        threading.Thread(target=child.stderr.read, daemon=True).start()
        yield child, found[1]
    finally:
        child.kill()
        child.wait(LONGEST_WAIT)
        child.stderr.close()
