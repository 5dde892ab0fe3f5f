"""``locuscore certify``: gives an archive a rule that fresh labelled rows certify."""

from typing import Annotated

from locuscore import Score, Scorer
from locuscore.cli import _options as options
from locuscore.cli._fit import SavingOptions
from locuscore.cli._labelled import read_fresh
from locuscore.cli._option_values import ArchiveOptions, check_output
from locuscore.cli._options import Thresholded
from locuscore.cli._terminal import Terminal


def certify(
    *,
    archive: options.Archive,
    data: options.Data,
    tau: Annotated[float, options.TAU],
    eta: Annotated[float, options.ETA],
    target: options.TargetAgain = None,
    clusters: options.ClustersAgain = None,
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
    rows = read_fresh(terminal, scorer, data, target, clusters, max_rows, seed)
    of = {
        Thresholded.TAIL: Score.tail(tau),
        Thresholded.EXCEEDANCE: Score.exceedance(tau),
        Thresholded.BOUND: Score.bound(scorer.alphas[0]),
    }[score]
    with terminal.working(f"certifying on {len(rows.y):,} rows"):
        rule = scorer.locus.certify(
            tau,
            eta,
            delta,
            rows.X,
            rows.y,
            of=of,
            starts=starts,
            allow_rows_used_in_fit=allow_rows_used_in_fit,
            clusters=rows.clusters,
        )
    saving.save(terminal, Scorer(scorer.locus, rule, scorer.alphas), rows.sample, reading.key)
