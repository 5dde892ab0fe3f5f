"""Which calibration ``locuscore fit`` makes: by groups, clusters, a target sample or folds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import typer

from locuscore.calibration import ByGroup, ClusterRows, CrossFit, OutOfBag, Shifted
from locuscore.cli import _options as options
from locuscore.cli._datasets import open_table
from locuscore.cli._option_values import missing_columns
from locuscore.cli._sample import Sample, sample_rows
from locuscore.cli._tables import Source
from locuscore.cli._terminal import Terminal


@dataclass(frozen=True)
class CalibrationOptions:
    """For which new rows the promise is made."""

    groups: options.GroupColumns = None
    pool_below: options.PoolBelow = None
    clusters: options.ClusterColumn = None
    largest_cluster: options.LargestCluster = None
    target_rows: options.TargetRows = None
    cross_fit: options.Folds = None
    out_of_bag: options.OutOfBagSwitch = False

    def check(self) -> None:
        """Raise unless at most one of them is chosen, and what belongs to it goes with it."""
        values = {
            "--groups": self.groups,
            "--clusters": self.clusters,
            "--target-rows": self.target_rows,
            "--cross-fit": self.cross_fit,
            "--out-of-bag": self.out_of_bag,
        }
        chosen = [name for name, value in values.items() if value]
        if len(chosen) > 1:
            raise typer.BadParameter(
                f"{' and '.join(chosen)} are different calibrations; choose one."
            )
        if self.pool_below is not None and not self.groups:
            raise typer.BadParameter("--pool-below goes with --groups; give that too.")
        if self.largest_cluster is not None and self.clusters is None:
            raise typer.BadParameter("--largest-cluster goes with --clusters; give that too.")
        groups = self.groups or []
        twice = sorted({name for name in groups if groups.count(name) > 1})
        if twice:
            raise typer.BadParameter(
                f"--groups {', '.join(twice)} is given more than once; name each column once."
            )

    @property
    def choice(self) -> Any:
        """The `calibration` of a `Locus`; None for the default."""
        if self.groups:
            by = self.groups[0] if len(self.groups) == 1 else list(self.groups)
            return ByGroup(by, pool_below=self.pool_below)
        if self.target_rows is not None:
            return Shifted()
        if self.largest_cluster is not None:
            return ClusterRows(self.largest_cluster)
        if self.out_of_bag:
            return OutOfBag()
        return None if self.cross_fit is None else CrossFit(self.cross_fit)

    def check_columns(self, source: Source, names: list[str], target: str) -> None:
        """Raise if a column is not in the file, or groups are not among what rows are known by."""
        check_no_target(self.clusters, target)
        wanted = [*(self.groups or []), *([self.clusters] if self.clusters else [])]
        missing_columns(source.path, wanted, source.names)
        hidden = [name for name in self.groups or [] if name not in names]
        if hidden:
            raise ValueError(
                f"new rows are told apart by their features, and {', '.join(hidden)} is none; add "
                "it with --feature, or use a predictor that takes it."
            )

    def given(
        self, terminal: Terminal, sample: Sample, names: list[str], most: int, seed: int
    ) -> dict[str, Any]:
        """What `fit` is given beside X and y: clusters, or the features of the target rows."""
        if self.clusters is not None:
            return {"clusters": cluster_labels(sample, self.clusters)}
        if self.target_rows is None:
            return {}
        source = open_table(self.target_rows)
        missing_columns(source.path, names, source.names)
        with terminal.working("reading the target rows"):
            target = sample_rows(source.batches(names), most, seed)
        if not target.n_read:
            raise ValueError(f"{self.target_rows} has no rows.")
        return {"target": target.rows.select(names).to_pandas()}


def check_no_target(clusters: str | None, target: str) -> None:
    """Raise if the column of clusters is that of the true values or losses."""
    if clusters == target:
        raise typer.BadParameter(
            f"--clusters {clusters} is the column of true values or losses; rows with the same "
            "value are no cluster. Name the column of a day, a customer or the like."
        )


def cluster_labels(sample: Sample, name: str) -> np.ndarray:
    """The labels of clusters; all rows of a cluster must be there."""
    if sample.n_dropped:
        raise ValueError(
            f"clusters must be whole, but only {sample.rows.num_rows:,} of {sample.n_read:,} rows "
            f"were read; raise --max-rows to {sample.n_read}."
        )
    return np.asarray(sample.rows.column(name).to_pandas(), dtype=object)
