"""``locuscore certify``: gives an archive a rule that fresh labelled rows certify."""

from typing import Annotated

from locuscore import Score, Scorer
from locuscore.cli import _options as options
from locuscore.cli._fit import SavingOptions, known_target, read_labelled, split_target
from locuscore.cli._option_values import ArchiveOptions, check_output
from locuscore.cli._options import Thresholded
from locuscore.cli._stream import csv_types, feature_columns
from locuscore.cli._tables import open_table
from locuscore.cli._terminal import Terminal


def certify(
    *,
    archive: options.Archive,
    data: options.Data,
    tau: Annotated[float, options.TAU],
    eta: Annotated[float, options.ETA],
    target: options.TargetAgain = None,
    delta: options.Delta = 0.1,
    score: options.ScoreName = Thresholded.TAIL,
    starts: options.Starts = None,
    reading: ArchiveOptions,
    saving: SavingOptions,
    allow_rows_used_in_fit: options.AllowUsedRows = False,
    loss: options.LossAgain = None,
    max_rows: options.MaxRows = options.MAX_ROWS,
    seed: options.Seed = 0,
    terminal: Terminal,
) -> None:
    """Certify a rule on fresh labelled rows; write a new archive, print its guarantee.

    The rows must be independent of those of fit, which are refused. With probability 1 - delta, at
    most a share eta of the rows that the rule accepts has a loss above tau.
    """
    check_output(saving.output, data, reading.predictor, reading.key_file)
    scorer = reading.load(archive, loss)
    target = known_target(scorer, target)
    types = csv_types(scorer)
    types = None if types is None else {**types, target: None}
    source = open_table(data, types)
    names = feature_columns(scorer, data, [n for n in source.names if n != target])
    sample = read_labelled(terminal, source, [*names, target], [target], max_rows, seed)
    X, y = split_target(sample, names, target)
    X = scorer.schema.conform(X)
    of = {
        Thresholded.TAIL: Score.tail(tau),
        Thresholded.EXCEEDANCE: Score.exceedance(tau),
        Thresholded.BOUND: Score.bound(scorer.alphas[0]),
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
    saving.save(terminal, Scorer(scorer.locus, rule, scorer.alphas), sample, reading.key)
