"""Memory of `fit` and `loss_bound` on images, texts and wide sparse rows (prints).

Each case runs in a process of its own, which reports its peak above that of the rows themselves.
``make costs-row-kinds``.
"""

import resource
import subprocess
import sys

import numpy as np
from scipy import sparse

from locuscore import Locus
from locuscore.engines import Forest

MB = 2**20


def few_pixels(rows):
    return rows[:, ::8, ::8, 0].reshape(-1, 16)


def images():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, size=(10_000, 32, 32, 3), dtype=np.uint8)
    return X, lambda rows: rows[:, 0, 0, 0] / 256.0, few_pixels


def floats():
    return images()[0].astype(np.float32), lambda rows: rows[:, 0, 0, 0], few_pixels


def texts():
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(5_000)])
    X = [" ".join(row) for row in words[rng.zipf(1.3, size=(100_000, 20)) % len(words)]]
    return X, lambda rows: np.array([float(len(text)) for text in rows]), None


def wide():
    rng = np.random.default_rng(0)
    X = sparse.random(100_000, 50_000, 4e-4, format="csr", rng=rng)
    return X, lambda rows: np.asarray(rows.sum(axis=1)).ravel(), None


CASES = {"images": images, "float images": floats, "texts": texts, "sparse": wide}


def size_of(X):
    """Bytes that the rows themselves take."""
    if isinstance(X, list):
        return sum(map(sys.getsizeof, X))
    return X.data.nbytes + X.indices.nbytes if sparse.issparse(X) else X.nbytes


def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(name):
    """Print the size of the rows, and how far the peak rises above what was there with them."""
    X, g, embedding = CASES[name]()
    said = g(X)
    y = said + np.random.default_rng(1).normal(size=len(said))
    signals = ["x", "predictor"] if embedding is None else ["x", "predictor", embedding]
    before = peak()
    engine = Forest(n_trees=20)
    locus = Locus(g, engine=engine, signals=signals, random_state=0).fit(X, y)
    fitted = peak()
    locus.loss_bound(X, 0.1)
    print(
        f"{name}: rows {size_of(X) / MB:.0f} MB, fit {(fitted - before) / MB:.0f} MB more, "
        f"loss_bound {(peak() - before) / MB:.0f} MB more",
        flush=True,
    )


def main():
    for name in CASES:
        subprocess.run([sys.executable, "-m", "benchmarks.costs.row_kinds", name], check=True)


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
