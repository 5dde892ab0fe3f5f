"""Small scorers, and ways to forge an archive, that several test files share."""

import hashlib
import io
import json
import os
import zipfile

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression, Ridge

from helpers import raises
from locuscore import KNNGamma, Locus, Scorer, engines
from locuscore._archive.container import array_bytes
from locuscore._archive.skops_models import skops_bytes
from locuscore._shared.boosting import BoostedTrees
from locuscore.calibration import CrossFit
from locuscore.engines import (
    Auto,
    Bagged,
    Ensemble,
    FlexCode,
    Forest,
    Gaussian,
    QuantileGrid,
    Scale,
)

FEW = BoostedTrees(max_iter=3)
BAGGED = Bagged(Scale(FEW), n_draws=2)
SEVERAL_DRAWS = {
    "Forest": lambda: Forest(n_trees=3, min_samples_leaf=10),
    "Bagged": lambda: Bagged(Scale(FEW), n_draws=3),
    "Ensemble": lambda: Ensemble([Forest(n_trees=3), BAGGED], weights="stacked", cv=2),
    "Auto": lambda: Auto([Forest(n_trees=3), Ensemble([Forest(n_trees=2), BAGGED])], cv=2),
    "BART": lambda: engines.BART(n_draws=4, n_trees=3, n_burn=0, thin=1, transform="log"),
    "MDN": lambda: engines.MDN(n_draws=4, n_hidden=4, max_epochs=2, transform="sqrt"),
    "BayesianMDN": lambda: engines.BayesianMDN(n_draws=3, n_hidden=3, max_epochs=2),
    "Flow": lambda: engines.Flow(n_draws=3, n_hidden=3, n_bins=3, max_epochs=2),
    "VariationalGP": lambda: engines.VariationalGP(n_draws=4, n_points=5, n_steps=3),
}
NEED_TORCH = ("MDN", "BayesianMDN", "Flow", "VariationalGP")  # names, with gamma or not, start so
NEED_EXTRAS = ("BART", *NEED_TORCH)
ONE_DRAW = {
    "FlexCode": lambda: FlexCode(ExtraTreesRegressor(2, min_samples_leaf=20), n_basis=3, cv=2),
    "Gaussian": lambda: Gaussian(FEW, Ridge()),
    "QuantileGrid": lambda: QuantileGrid((0.5, 0.9), BoostedTrees(loss="quantile", max_iter=3)),
    "Scale": lambda: Scale(FEW),
}
ENGINES = SEVERAL_DRAWS | ONE_DRAW
# Everything that can be saved, and must give the same scores wherever it is scored.
CROSS_FITTED = "Forest, cross-fitted"
LOSS_MODELS = [*ENGINES, *(f"{name} with gamma" for name in SEVERAL_DRAWS), CROSS_FITTED]


def loss_model(name):
    """Return the settings of a Locus that a name stands for."""
    if name == CROSS_FITTED:
        engine = Forest(n_trees=2, min_samples_leaf=20)
        return {"engine": engine, "gamma": None, "calibration": CrossFit(2)}
    engine = ENGINES[name.removesuffix(" with gamma")]()
    phi = "engine" if hasattr(engine, "embed") else "x"
    return {"engine": engine, "gamma": KNNGamma(k=7, phi=phi) if name.endswith("gamma") else None}


def rows(n=160, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    return X, X[:, 0] + X[:, 1] * rng.normal(size=n)


def small_scorer(predictor=None, X=None, y=None, **settings):
    """A scorer of a few trees, a rule and two alphas; no second opinion, which takes time."""
    if X is None:
        X, y = rows()
    predictor = LinearRegression().fit(X, y) if predictor is None else predictor
    small = {"engine": Forest(n_trees=3, min_samples_leaf=20), "signals": ["x", "predictor"]}
    locus = Locus(predictor, **{"random_state": 0} | small | settings).fit(X, y)
    return Scorer(locus, locus.tau_rule(tau=0.5, alpha=0.2), alphas=(0.1, 0.25))


def two_outputs(X, y):
    """A scorer whose predictor gives two numbers per row; the loss is the larger error."""
    both = np.column_stack([y, -y])

    def largest(y, g):
        return np.abs(y - g).max(axis=1)

    return small_scorer(LinearRegression().fit(X, both), X, both, loss=largest)


def assert_same_scores(one, other, batch):
    """The same columns, numbers to 1e-9, flags and text identical."""
    first, second = one(batch), other(batch)
    assert type(first) is type(second)
    names = getattr(first, "column_names", None) or list(getattr(first, "columns", first))
    assert names == one.column_names
    for name in names:
        a, b = np.asarray(first[name]), np.asarray(second[name])
        assert a.dtype == b.dtype
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=0)
        else:
            assert (a == b).all()


def assert_loads(path, locus, X, error=None):
    """An archive gives the bounds of a Locus; or it is refused, at the latest when it scores."""
    if error is None:
        assert np.array_equal(Scorer.load(path).locus.loss_bound(X), locus.loss_bound(X))
        return
    with raises(ValueError, error):
        Scorer.load(path)(X)


def assert_cannot_be_kept(engine, path):
    """An engine is refused by `save`, alone and in an ensemble, and the old file stays."""
    scorer = small_scorer(engine=engine)
    alone = scorer.locus.engine_
    inside = Ensemble([alone, Forest()])
    inside.engines_, inside.weights_ = [alone, Forest()], np.array([0.5, 0.5])
    path.write_text("old")
    for one in (alone, inside):
        scorer.locus.engine_ = one
        with raises(TypeError, type(engine).__name__, "safe format") as caught:
            scorer.save(path)
        assert str(caught.value).count(". ") == 0  # one sentence
        assert path.read_text() == "old"
        assert os.listdir(path.parent) == [path.name]


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forge(path, changed, manifest=None):
    """Rewrite members, with digests that fit: what somebody with bad intentions would do."""
    members = members_of(path) | changed
    listed = json.loads(members.pop("manifest.json")) | (manifest or {})
    listed["members"] = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(listed))
        for name, data in members.items():
            archive.writestr(name, data)


def forged(saved, target, change):
    """Copy an archive, the state of its Locus changed by a function that may add parts.

    It is called with the state and a function that makes a part of an array or of a model.
    """
    state, added = json.loads(members_of(saved)["scorer.json"]), {}

    def part(value):
        is_array = isinstance(value, np.ndarray)
        name = f"parts/forged_{len(added)}.{'npy' if is_array else 'skops'}"
        added[name] = array_bytes(value) if is_array else skops_bytes(value)
        return {"is": "array" if is_array else "skops", "member": name}

    change(state["locus"], part)
    target.write_bytes(saved.read_bytes())
    forge(target, {"scorer.json": json.dumps(state).encode(), **added})
    return target


def forged_state(saved, target, where, change):
    """Copy an archive with other values in the state of one object, which `where` names."""

    def put(locus, part):
        for name in where:
            locus = locus[name]["state"]
        for name, value in change.items():
            locus[name] = part(value) if isinstance(value, np.ndarray) else value

    return forged(saved, target, put)


def forged_schema(data, change):
    """A skops file whose schema a function has changed."""
    source, target = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                change(schema)
                content = json.dumps(schema).encode()
            archive.writestr(name, content)
    return target.getvalue()
