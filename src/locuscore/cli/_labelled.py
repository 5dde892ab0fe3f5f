"""Labelled rows for an archive that exists: those that certify a rule or calibrate anew."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from locuscore import Scorer
from locuscore.cli._calibration import check_no_target, cluster_labels
from locuscore.cli._datasets import open_table
from locuscore.cli._fit import known_target, read_labelled, split_target
from locuscore.cli._option_values import missing_columns
from locuscore.cli._sample import Sample
from locuscore.cli._stream import csv_types, feature_columns
from locuscore.cli._terminal import Terminal


@dataclass(frozen=True)
class FreshRows:
    """Rows with the columns of `fit`, their true values, and their clusters if any."""

    sample: Sample
    X: Any
    y: Any
    clusters: np.ndarray | None


def read_fresh(
    terminal: Terminal,
    scorer: Scorer,
    path: Path,
    target: str | None,
    clusters: str | None,
    most: int,
    seed: int,
) -> FreshRows:
    """Read at most so many rows; clusters must be whole, and are a feature only if they were one.

    An array has no names, so there the columns of target and clusters are never features.
    """
    label = known_target(scorer, target)
    check_no_target(clusters, label)
    types = csv_types(scorer)
    source = open_table(path, None if types is None else {**types, label: None})
    own = [] if clusters is None else [clusters]
    missing_columns(path, own, source.names)
    others = {label, *own} if scorer.schema.kind == "array" else {label}
    names = feature_columns(scorer, path, [n for n in source.names if n not in others])
    wanted = list(dict.fromkeys([*names, label, *own]))
    sample = read_labelled(terminal, source, wanted, [label], most, seed)
    X, y = split_target(sample, names, label)
    labels = None if clusters is None else cluster_labels(sample, clusters)
    return FreshRows(sample, scorer.schema.conform(X), y, labels)
