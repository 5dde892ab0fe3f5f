"""``locuscore fit``: labelled rows in, an archive out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console

from locuscore import FlagRule, Locus, Scorer, prediction_column
from locuscore._shared.checks import check_alpha, check_between
from locuscore.cli import _options as options
from locuscore.cli._calibration import CalibrationOptions
from locuscore.cli._datasets import open_table
from locuscore.cli._exit_codes import NOTHING_ACCEPTED
from locuscore.cli._id_columns import warn_of_ids_and_times
from locuscore.cli._option_values import (
    PredictorOptions,
    check_output,
    chosen_engine,
    chosen_key,
    chosen_loss,
    missing_columns,
)
from locuscore.cli._options import Rule
from locuscore.cli._sample import Sample, sample_rows, whole_numbers
from locuscore.cli._tables import CsvSource, Source
from locuscore.cli._terminal import Terminal, print_card, print_plain, size_text


@dataclass(frozen=True)
class RuleOptions:
    """Which rule is made from the rows of fit."""

    rule: options.RuleName = None
    tau: Annotated[float | None, options.TAU] = None
    eta: Annotated[float | None, options.ETA] = None
    delta: options.Delta = 0.1
    starts: options.Starts = None
    allow_empty: options.AllowEmpty = False

    def check(self) -> None:
        """Raise unless all is there that the rule needs, and nothing else."""
        check_between(self.delta, "delta")
        chosen = self.rule or (Rule.NONE if self.tau is None else Rule.TAU)
        is_certified = chosen is Rule.CERTIFY
        faults = {
            f"--rule {chosen} needs --tau.": chosen is not Rule.NONE and self.tau is None,
            "--rule none has no use for --tau.": chosen is Rule.NONE and self.tau is not None,
            "--rule certify and --eta belong together.": is_certified != (self.eta is not None),
            "--starts is for --rule certify.": self.starts and not is_certified,
            "--allow-empty is for --rule certify.": self.allow_empty and not is_certified,
        }
        for sentence, is_wrong in faults.items():
            if is_wrong:
                raise typer.BadParameter(sentence)
        if self.eta is not None:
            check_between(self.eta, "eta")

    def make(self, locus: Locus, alpha: float) -> FlagRule | None:
        """Return the rule that was checked."""
        if self.tau is None:
            return None
        if self.eta is None:
            return locus.tau_rule(self.tau, alpha)
        return locus.certify(self.tau, self.eta, self.delta, starts=self.starts)


@dataclass(frozen=True)
class SavingOptions:
    """Where an archive goes, and what it keeps."""

    output: options.NewArchive
    allow_empty: options.AllowEmpty = False
    no_rows: options.NoRows = False

    def save(self, terminal: Terminal, scorer: Scorer, sample: Sample, key: bytes | None) -> None:
        """Write an archive, and say what was fitted, what it guarantees and where it is.

        A certificate that accepts nothing is written only if that is allowed.
        """
        rule = scorer.rule
        if rule is not None and rule.accepts_nothing and not self.allow_empty:
            _show(terminal, scorer, None, sample)
            terminal.error(
                f"the certificate accepts nothing, so {self.output} was not written; "
                "--allow-empty writes it all the same."
            )
            raise typer.Exit(NOTHING_ACCEPTED)
        scorer.save(self.output, key=key, keep_rows=not self.no_rows)
        _show(terminal, scorer, self.output, sample)


def fit(
    *,
    data: options.Data,
    target: options.Target,
    prediction: options.Prediction = None,
    model: PredictorOptions,
    feature: options.Feature = None,
    drop: options.Drop = None,
    loss: options.LossName = None,
    unit: options.LossUnit = "",
    engine: options.EngineName = "Forest",
    calibration_size: options.CalibrationSize = None,
    calibration: CalibrationOptions,
    alpha: options.Alphas = None,
    rule: RuleOptions,
    saving: SavingOptions,
    max_rows: options.MaxRows = options.MAX_ROWS,
    seed: options.Seed = 0,
    key_file: options.KeyFile = None,
    terminal: Terminal,
) -> None:
    """Model and calibrate the loss of a predictor; write an archive, print its guarantee.

    The rows must be labelled, like those to come, and unseen by the predictor.
    """
    check_output(saving.output, data, model.predictor, key_file)
    if (prediction is None) == (model.predictor is None):
        raise typer.BadParameter("give either --prediction COLUMN or --predictor MODEL.")
    settings: dict[str, Any] = {
        "loss": chosen_loss(loss),
        "engine": chosen_engine(engine),
        "random_state": seed,
        "unit": unit,
    }
    alphas = alpha or [0.1]
    rule.check()
    calibration.check()
    check_alpha(alphas)
    key = chosen_key(key_file)
    g = model.chosen() if prediction is None else prediction_column(prediction)
    source = open_table(data)
    predictions = [str(g.name)] if isinstance(g, type(prediction_column(""))) else []
    own = [] if calibration.clusters is None else [calibration.clusters]
    left_out = [*(drop or []), *(name for name in own if name not in (feature or []))]
    names = _features(source, target, g, predictions, feature, left_out)
    calibration.check_columns(source, names, target)
    wanted = list(dict.fromkeys([*names, target, *own]))
    sample = read_labelled(terminal, source, wanted, [target, *predictions], max_rows, seed)
    if not feature and not hasattr(g, "feature_names_in_"):  # nobody has asked for these columns
        warn_of_ids_and_times(sample.rows, [name for name in names if name != prediction])
    X, y = split_target(sample, names, target)
    given = calibration.given(terminal, sample, names, max_rows, seed)
    settings |= {"calibration_size": calibration_size, "calibration": calibration.choice}
    with terminal.working(f"fitting on {len(y):,} rows"):
        locus = Locus(g, **settings).fit(X, y, **given)
    saving.save(terminal, Scorer(locus, rule.make(locus, alphas[0]), alphas), sample, key)


def read_labelled(
    terminal: Terminal,
    source: Source,
    names: Sequence[str],
    whole: Sequence[str],
    most: int,
    seed: int,
) -> Sample:
    """Return a sample of rows with these columns.

    A CSV reader takes whole numbers for fractions; in the columns `whole` they are integers again.
    """
    missing_columns(source.path, names, source.names)
    with terminal.working("reading"):
        sample = sample_rows(source.batches(names), most, seed)
    if not sample.n_read:
        raise ValueError(f"{source.path} has no rows.")
    if sample.n_dropped:
        terminal.note(sample.note)
    rows = sample.rows
    for name in whole if isinstance(source, CsvSource) else ():
        j = rows.schema.get_field_index(name)
        rows = rows.set_column(j, name, whole_numbers(rows.column(j)))
    return Sample(rows, sample.n_read)


def _features(
    source: Source,
    target: str,
    g: Any,
    predictions: Sequence[str],
    wanted: Sequence[str] | None,
    dropped: Sequence[str],
) -> list[str]:
    missing_columns(source.path, [target, *dropped], source.names)
    own = [str(name) for name in getattr(g, "feature_names_in_", [])]
    names = wanted or own or [name for name in source.names if name != target]
    names = [name for name in names if name not in dropped]
    names += [name for name in predictions if name not in names]
    if target in names:
        raise ValueError(f"the target {target} cannot be a feature or the prediction as well.")
    n_wanted = getattr(g, "n_features_in_", len(names))
    if n_wanted != len(names):
        raise ValueError(
            f"the predictor takes {n_wanted} columns, but {len(names)} are left: "
            f"{', '.join(names)}; use --drop or --feature."
        )
    return names


def split_target(sample: Sample, names: list[str], target: str) -> tuple[Any, Any]:
    """Features as a pandas frame, which most predictors read, and the target with its name."""
    check_target(sample.rows.column(target), target)
    frame = sample.rows.select([*names, target]).to_pandas()
    return frame[names], frame[target]


def known_target(scorer: Scorer, target: str | None) -> str:
    """Return the column that is named, or the one that `fit` was given."""
    found = target or scorer.locus.target_name_
    if found is None:
        raise typer.BadParameter("the archive names no target; give it with --target COLUMN.")
    return found


def check_target(y: Any, name: str) -> None:
    """Refuse a column of true values in which some are missing."""
    missing = y.null_count or (
        int(np.isnan(y.to_numpy()).sum()) if pa.types.is_floating(y.type) else 0
    )
    if missing:
        raise ValueError(f"the target {name} is missing in {missing:,} rows; remove them first.")


def _show(terminal: Terminal, scorer: Scorer, output: Path | None, sample: Sample) -> None:
    locus, n_used = scorer.locus, int(sample.rows.num_rows)
    n_calibration = len(locus.tails_)
    rule = None if scorer.rule is None else scorer.rule.to_dict()
    if rule is not None:
        rule.pop("table", None)
    figures = {
        "archive": None if output is None else str(output),
        "rows_read": sample.n_read,
        "rows_used": n_used,
        "n_calibration": n_calibration,
        "loss": locus.loss_.name,
        "unit": locus.unit_,
        "engine": type(locus.engine_).__name__,
        "predictor": type(locus.predictor_).__name__,
        "alphas": list(scorer.alphas),
        "features": list(scorer.schema.names),
        "columns": scorer.column_names,
        "rule": rule,
        "card": scorer.card,
    }

    def draw(console: Console) -> None:
        print_card(console, scorer.card)
        if output is None:
            return
        size = size_text(output.stat().st_size)
        print_plain(
            console,
            f"Saved {output} ({size}): {figures['loss']} loss{_in(locus.unit_)}, "
            f"{figures['engine']}, "
            f"{n_calibration:,} calibration rows.",
        )

    terminal.show(figures, draw)


def _in(unit: str) -> str:
    return f" in {unit}" if unit else ""
