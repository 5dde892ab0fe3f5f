"""Forests of stochtree: predicting with them, and their JSON for archives and pickles."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from stochtree import Dataset, ForestContainer

from locuscore._protocols import FloatArray
from locuscore._shared.kept import Kept
from locuscore.engines._stochtree_json import canonical_stochtree


@dataclass
class Forests:
    """The kept forests of location and variance, grown on `n_signals` signals."""

    ARCHIVE = Kept("Forests", fields=("location", "variance"), single=("n_signals",))

    location: Any
    variance: Any
    n_signals: int

    def keep(self, n: int) -> None:
        """Drop all but the first n draws."""
        for forest in (self.location, self.variance):
            for draw in range(forest.num_samples() - 1, n - 1, -1):
                forest.delete_sample(draw)

    def predict(self, S: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Location and variance, each (n, draws)."""
        if S.shape[1] != self.n_signals:  # stochtree would read beyond the rows
            raise ValueError(f"BART was fitted on {self.n_signals} signals; got {S.shape[1]}.")
        rows = Dataset()
        rows.add_covariates(np.ascontiguousarray(S, dtype=np.float64))
        return self.location.predict(rows), self.variance.predict(rows)

    def to_parts(self) -> dict[str, Any]:
        """Return how the containers of the forests are made, and their JSON."""
        forests = {"location": self.location, "variance": self.variance}
        return {"n_signals": self.n_signals} | {
            name: [forest.num_trees, forest.is_exponentiated, forest.dump_json_string()]
            for name, forest in forests.items()
        }

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the forests of an archive, every number checked.

        They refer to none but the signals that `predict` makes sure of.
        """
        checked = dict(parts)
        for name in ("location", "variance"):
            n_trees, is_exponentiated, text = parts[name]
            text = canonical_stochtree(text, n_trees, is_exponentiated, parts["n_signals"])
            checked[name] = [n_trees, is_exponentiated, text]
        result = cls.__new__(cls)
        result.__setstate__(checked)
        return result

    def __getstate__(self) -> dict[str, Any]:
        return self.to_parts()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.n_signals = state["n_signals"]
        for name in ("location", "variance"):
            n_trees, is_exponentiated, text = state[name]
            forest = ForestContainer(n_trees, 1, True, is_exponentiated)
            forest.load_from_json_string(text)
            setattr(self, name, forest)
