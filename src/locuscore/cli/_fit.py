"""``locuscore fit``: labelled rows in, an archive out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console

from locuscore import FlagRule, Locus, Scorer, prediction_column
from locuscore._shared.checks import check_alpha, check_between
from locuscore.cli._exit_codes import NOTHING_ACCEPTED
from locuscore.cli._id_columns import warn_of_ids_and_times
from locuscore.cli._option_values import (
    check_output,
    chosen_engine,
    chosen_key,
    chosen_loss,
    chosen_predictor,
    missing_columns,
)
from locuscore.cli._options import (
    ETA,
    MAX_ROWS,
    TAU,
    AllowEmpty,
    Alphas,
    CalibrationSize,
    Data,
    Debug,
    Delta,
    Drop,
    EngineName,
    Feature,
    Json,
    KeyFile,
    LossName,
    MaxRows,
    NewArchive,
    NoRows,
    Prediction,
    Predictor,
    Quiet,
    Rule,
    RuleName,
    Seed,
    Starts,
    Target,
    Trust,
    TrustPickle,
)
from locuscore.cli._sample import Sample, sample_rows, whole_numbers
from locuscore.cli._tables import file_format, open_table
from locuscore.cli._terminal import Terminal, print_card, print_plain, size_text


def fit(
    data: Data,
    target: Target,
    output: NewArchive,
    prediction: Prediction = None,
    predictor: Predictor = None,
    trust: Trust = None,
    trust_pickle: TrustPickle = False,
    feature: Feature = None,
    drop: Drop = None,
    loss: LossName = None,
    engine: EngineName = "Forest",
    calibration_size: CalibrationSize = None,
    alpha: Alphas = None,
    rule: RuleName = None,
    tau: Annotated[float | None, TAU] = None,
    eta: Annotated[float | None, ETA] = None,
    delta: Delta = 0.1,
    starts: Starts = None,
    allow_empty: AllowEmpty = False,
    max_rows: MaxRows = MAX_ROWS,
    seed: Seed = 0,
    key_file: KeyFile = None,
    no_rows: NoRows = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Model and calibrate the loss of a predictor; write an archive, print its guarantee.

    The rows must be labelled, like those to come, and unseen by the predictor.
    """
    terminal = Terminal(as_json, quiet)
    check_output(output, data, predictor, key_file)
    if (prediction is None) == (predictor is None):
        raise typer.BadParameter("give either --prediction COLUMN or --predictor MODEL.")
    settings = {"loss": chosen_loss(loss), "engine": chosen_engine(engine), "random_state": seed}
    chosen, alphas = _check_rule(rule, tau, eta, delta), alpha or [0.1]
    _check_for_certificate(chosen, starts, allow_empty)
    check_alpha(alphas)
    key = chosen_key(key_file)
    g = chosen_predictor(predictor, trust, trust_pickle)
    if prediction is not None:
        g = prediction_column(prediction)
    with terminal.working("reading"):
        names, sample = read_labelled(data, target, g, feature, drop, max_rows, seed)
    if sample.n_dropped:
        terminal.note(sample.note)
    if not feature and not hasattr(g, "feature_names_in_"):  # nobody has asked for these columns
        warn_of_ids_and_times(sample.rows, [name for name in names if name != prediction])
    X, y = split_target(sample, names, target)
    with terminal.working(f"fitting on {len(y):,} rows"):
        locus = Locus(g, calibration_size=calibration_size, **settings).fit(X, y)
    made = _make_rule(locus, chosen, alphas[0], tau, eta, delta, starts)
    scorer = Scorer(locus, made, alphas)
    save_and_show(
        terminal, scorer, output, sample, key=key, keep_rows=not no_rows, allow_empty=allow_empty
    )


def _check_rule(rule: Rule | None, tau: float | None, eta: float | None, delta: float) -> Rule:
    """Return the rule that is meant; what it needs must be there, and nothing else."""
    check_between(delta, "delta")
    chosen = rule or (Rule.NONE if tau is None else Rule.TAU)
    if chosen is not Rule.NONE and tau is None:
        raise typer.BadParameter(f"--rule {chosen} needs --tau.")
    if chosen is Rule.NONE and tau is not None:
        raise typer.BadParameter("--rule none has no use for --tau.")
    if (chosen is Rule.CERTIFY) != (eta is not None):
        raise typer.BadParameter("--rule certify and --eta belong together.")
    if eta is not None:
        check_between(eta, "eta")
    return chosen


def _check_for_certificate(rule: Rule, starts: Sequence[float] | None, allow_empty: bool) -> None:
    for name, given in (("--starts", starts), ("--allow-empty", allow_empty)):
        if given and rule is not Rule.CERTIFY:
            raise typer.BadParameter(f"{name} is for --rule certify.")


def _make_rule(
    locus: Locus,
    rule: Rule,
    alpha: float,
    tau: float | None,
    eta: float | None,
    delta: float,
    starts: Sequence[float] | None,
) -> FlagRule | None:
    if tau is None:
        return None
    if rule is Rule.TAU:
        return locus.tau_rule(tau, alpha)
    assert eta is not None
    return locus.certify(tau, eta, delta, starts=starts)


def read_labelled(
    path: Path,
    target: str,
    predictor: Any,
    wanted: Sequence[str] | None,
    dropped: Sequence[str] | None,
    most: int,
    seed: int,
    types: dict[str, Any] | None = None,
) -> tuple[list[str], Sample]:
    """Names of the features, and a sample of rows with them and the target."""
    source = open_table(path, types)
    names = _features(path, source.names, target, predictor, wanted, dropped)
    missing_columns(path, [*names, target], source.names)
    sample = sample_rows(source.batches([*names, target]), most, seed)
    if not sample.n_read:
        raise ValueError(f"{path} has no rows.")
    if file_format(path) == "csv":
        exact = [target, *([predictor.name] if _is_column(predictor) else [])]
        for name in exact:
            j = sample.rows.schema.get_field_index(name)
            whole = whole_numbers(sample.rows.column(j))
            sample = Sample(sample.rows.set_column(j, name, whole), sample.n_read)
    return names, sample


def _is_column(predictor: Any) -> bool:
    return isinstance(predictor, type(prediction_column("")))


def _features(
    path: Path,
    found: list[str],
    target: str,
    predictor: Any,
    wanted: Sequence[str] | None,
    dropped: Sequence[str] | None,
) -> list[str]:
    missing_columns(path, [target, *(dropped or [])], found)
    own = [str(name) for name in getattr(predictor, "feature_names_in_", [])]
    names = list(wanted or own or [name for name in found if name != target])
    names = [name for name in names if name not in (dropped or [])]
    if _is_column(predictor) and predictor.name not in names:
        names.append(predictor.name)
    if target in names:
        raise ValueError(f"the target {target} cannot be a feature or the prediction as well.")
    n_wanted = getattr(predictor, "n_features_in_", len(names))
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


def save_and_show(
    terminal: Terminal,
    scorer: Scorer,
    output: Path,
    sample: Sample,
    *,
    key: bytes | None,
    keep_rows: bool,
    allow_empty: bool,
) -> None:
    """Write an archive, and say what was fitted, what it guarantees and where it is.

    A certificate that accepts nothing is written only if that is allowed.
    """
    rule = scorer.rule
    accepts_nothing = rule is not None and rule.threshold == -np.inf
    if not accepts_nothing or allow_empty:
        scorer.save(output, key=key, keep_rows=keep_rows)
        _show(terminal, scorer, output, sample)
        return
    _show(terminal, scorer, None, sample)
    terminal.error(
        f"the certificate accepts nothing, so {output} was not written; --allow-empty writes it "
        "all the same."
    )
    raise typer.Exit(NOTHING_ACCEPTED)


def _show(terminal: Terminal, scorer: Scorer, output: Path | None, sample: Sample) -> None:
    locus, n_used = scorer.locus, int(sample.rows.num_rows)
    n_calibration = len(locus.tails_)
    rule = None if scorer.rule is None else scorer.rule.to_dict()
    if rule is not None:
        rule.pop("table")
    figures = {
        "archive": None if output is None else str(output),
        "rows_read": sample.n_read,
        "rows_used": n_used,
        "n_calibration": n_calibration,
        "loss": locus.loss_.name,
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
            f"Saved {output} ({size}): {figures['loss']} loss, {figures['engine']}, "
            f"{n_calibration:,} calibration rows.",
        )

    terminal.show(figures, draw)
