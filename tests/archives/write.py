"""Write the archives that later versions must be able to load, then commit them.

    python tests/archives/write.py

Those that are there already stay as they are: an older version wrote them. Each is a small scorer,
`<name>.locus`, and beside it, in `<name>.json`, a batch and its scores.
"""

import json
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge

from locuscore import KNNGamma, Locus, Scorer, pinball, prediction_column
from locuscore._archive.container import FORMAT
from locuscore.engines import (
    BART,
    MDN,
    Auto,
    Bagged,
    Ensemble,
    Forest,
    Gaussian,
    QuantileGrid,
    Scale,
)

FOLDER = Path(__file__).parent / f"format_{FORMAT}"


def frame(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": rng.uniform(size=n),
            "kind": pd.Categorical(rng.choice(["a", "b"], size=n)),
            "town": rng.choice(["north", "south"], size=n),
            "guess": rng.uniform(size=n),
        }
    )


def scorers():
    rows = frame(120, 0)
    numbers = rows[["size", "guess"]]
    y = rows["guess"].to_numpy() + rows["size"].to_numpy() * np.random.default_rng(1).normal(
        size=120
    )
    few_trees = HistGradientBoostingRegressor(max_iter=2, max_leaf_nodes=4)
    boosted = lightgbm.LGBMRegressor(n_estimators=2, num_leaves=4, verbose=-1).fit(numbers, y)
    network = MDN(n_draws=4, n_hidden=4, n_components=2, max_epochs=2)
    trees = BART(n_draws=4, n_trees=3, n_burn=0, thin=1)
    given = prediction_column("guess")
    tree = Forest(n_trees=1, min_samples_leaf=20)
    linear = LinearRegression().fit(numbers, y)
    quantiles = QuantileGrid((0.5, 0.9), QuantileRegressor(alpha=0.0))
    return {
        "auto": (Locus(linear, engine=Auto([tree, Scale(Ridge())], cv=2)), numbers, y),
        "ensemble": (Locus(linear, engine=Ensemble([tree, Scale(Ridge())])), numbers, y),
        "gaussian": (Locus(linear, engine=Gaussian(Ridge(), Ridge())), numbers, y),
        "quantiles": (Locus(linear, engine=quantiles), numbers, y),
        "mdn": (Locus(given, engine=network, gamma=KNNGamma(k=5), loss=pinball(0.8)), rows, y),
        "bart": (Locus(given, engine=trees), rows, y),
        "lightgbm": (Locus(boosted, engine=network), numbers, y),
        "forest": (Locus(given, engine=Forest(n_trees=2, min_samples_leaf=15)), rows, y),
        "scale": (Locus(given, engine=Bagged(Scale(few_trees), n_draws=1)), rows, y),
    }


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, (locus, rows, y) in scorers().items():
        if (FOLDER / f"{name}.locus").exists():
            continue
        locus.set_params(random_state=0).fit(rows, y)
        scorer = Scorer(locus, locus.tau_rule(tau=0.5, alpha=0.2), alphas=(0.1, 0.25))
        scorer.save(FOLDER / f"{name}.locus")
        batch = frame(12, 2)[list(rows)]
        record = {
            "batch": batch.to_dict("list"),
            "scores": scorer(batch).to_dict("list"),
        }
        (FOLDER / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
