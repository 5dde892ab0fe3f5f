"""``locuscore certify``: gives an archive a rule that fresh labelled rows certify."""

from typing import Annotated

from locuscore import Score, Scorer
from locuscore.cli._fit import known_target, read_labelled, save_and_show, split_target
from locuscore.cli._option_values import (
    check_output,
    chosen_key,
    chosen_loss,
    chosen_predictor,
    load_scorer,
)
from locuscore.cli._options import (
    ETA,
    MAX_ROWS,
    TAU,
    AllowAnotherPredictor,
    AllowEmpty,
    AllowUsedRows,
    Archive,
    Data,
    Debug,
    Delta,
    Json,
    KeyFile,
    LossAgain,
    MaxRows,
    NewArchive,
    NoRows,
    OwnClasses,
    Predictor,
    Quiet,
    ScoreName,
    Seed,
    Starts,
    TargetAgain,
    Thresholded,
    Trust,
    TrustPickle,
)
from locuscore.cli._stream import csv_types, feature_columns
from locuscore.cli._tables import open_table
from locuscore.cli._terminal import Terminal


def certify(
    archive: Archive,
    data: Data,
    tau: Annotated[float, TAU],
    eta: Annotated[float, ETA],
    output: NewArchive,
    target: TargetAgain = None,
    delta: Delta = 0.1,
    score: ScoreName = Thresholded.TAIL,
    starts: Starts = None,
    allow_empty: AllowEmpty = False,
    predictor: Predictor = None,
    trust: Trust = None,
    trust_pickle: TrustPickle = False,
    allow_another_predictor: AllowAnotherPredictor = False,
    classes: OwnClasses = None,
    allow_rows_used_in_fit: AllowUsedRows = False,
    loss: LossAgain = None,
    max_rows: MaxRows = MAX_ROWS,
    seed: Seed = 0,
    key_file: KeyFile = None,
    no_rows: NoRows = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Certify a rule on fresh labelled rows; write a new archive, print its guarantee.

    The rows must be independent of those of fit, which are refused. With probability 1 - delta, at
    most a share eta of the rows that the rule accepts has a loss above tau.
    """
    terminal = Terminal(as_json, quiet)
    check_output(output, data, predictor, key_file)
    g = chosen_predictor(predictor, trust, trust_pickle)
    own_loss = None if loss is None else chosen_loss(loss)
    key = chosen_key(key_file)
    scorer = load_scorer(archive, g, trust, own_loss, key, allow_another_predictor, classes)
    target = known_target(scorer, target)
    types = csv_types(scorer)
    types = None if types is None else {**types, target: None}
    names = feature_columns(scorer, data, [n for n in open_table(data).names if n != target])
    with terminal.working("reading"):
        _, sample = read_labelled(data, target, None, names, None, max_rows, seed, types)
    if sample.n_dropped:
        terminal.note(sample.note)
    X, y = split_target(sample, names, target)
    X = scorer.schema.conform(X)
    alpha = scorer.alphas[0]
    of = {
        Thresholded.TAIL: Score.tail(tau),
        Thresholded.EXCEEDANCE: Score.exceedance(tau),
        Thresholded.BOUND: Score.bound(alpha),
    }[score]
    with terminal.working(f"certifying on {len(y):,} rows"):
        rule = scorer.locus.certify(
            tau,
            eta,
            delta,
            X,
            y,
            of=of,
            starts=starts,
            allow_rows_used_in_fit=allow_rows_used_in_fit,
        )
    made = Scorer(scorer.locus, rule, scorer.alphas)
    save_and_show(
        terminal, made, output, sample, key=key, keep_rows=not no_rows, allow_empty=allow_empty
    )
