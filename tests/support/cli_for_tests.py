"""What the tests of the command line share; nothing optional is imported before it is used."""

import json

import numpy as np

from locuscore.__main__ import main

FILES = ("parquet", "csv", "arrow")


def homes(n, seed=0):
    """Numbers, whole numbers, text and an id; the noise depends on the text."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    size, age = rng.uniform(size=n), rng.integers(0, 50, size=n)
    town = rng.choice(["north", "south"], size=n)
    noise = np.where(town == "north", 0.2, 1.0) * rng.normal(size=n)
    frame = pd.DataFrame({"id": np.arange(n), "size": size, "age": age, "town": town})
    frame["quoted"] = size + 0.01 * age
    return frame.assign(price=frame["quoted"] + noise)


def write(frame, path):
    """Write a frame in the format of the path's ending, in several pieces."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import feather

    table = pa.Table.from_pandas(frame, preserve_index=False)
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path, row_group_size=70)
        case ".csv":
            frame.to_csv(path, index=False)
        case _:
            feather.write_feather(table, str(path), chunksize=90)
    return path


def read(path):
    import pandas as pd
    import pyarrow.parquet as pq
    from pyarrow import feather

    match path.suffix:
        case ".parquet":
            return pq.read_table(path).to_pandas()
        case ".csv":
            return pd.read_csv(path, float_precision="round_trip")
        case _:
            return feather.read_feather(str(path))


def run(capsys, *arguments):
    """Run a command that must succeed, and return what it says in JSON."""
    code = main([*map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


def fails(capsys, *arguments, code=1):
    """Run a command that must fail with one line on stderr, which is returned."""
    assert main([*map(str, arguments)]) == code
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def assert_same(scores, expected):
    """Numbers to 1e-9, flags and text identical."""
    assert list(scores) == list(expected)
    for name in expected:
        a, b = np.asarray(scores[name]), np.asarray(expected[name])
        if b.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=0)
        else:
            assert (a == b).all()
