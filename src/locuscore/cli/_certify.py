"""``locuscore certify``: gives an archive a rule that fresh labelled rows certify."""

from typing import Annotated, Any

import typer

from locuscore import FlagRule, GroupRule, Score, Scorer
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
    groups: options.GroupsOfRule = None,
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
    most a share eta of the rows that the rule accepts has a loss above tau; with --groups, in every
    group at once.
    """
    if groups is not None and (starts or clusters is not None):
        raise typer.BadParameter(
            "--groups certifies rows as independent, and by its own sequence of tests; leave out "
            f"{'--starts' if starts else '--clusters'}."
        )
    check_output(saving.output, data, reading.predictor, reading.key_file)
    scorer = reading.load(archive, loss)
    reading.warn_if_unsigned(archive)
    rows = read_fresh(terminal, scorer, data, target, clusters, max_rows, seed)
    if groups is not None and groups not in scorer.schema.names:
        raise ValueError(
            f"a rule tells groups by a feature, and {groups} is none; the features are "
            f"{', '.join(map(str, scorer.schema.names))}."
        )
    of = {
        Thresholded.TAIL: Score.tail(tau),
        Thresholded.EXCEEDANCE: Score.exceedance(tau),
        Thresholded.BOUND: Score.bound(scorer.alphas[0]),
    }[score]
    with terminal.working(f"certifying on {len(rows.y):,} rows"):
        settings: dict[str, Any] = {"of": of, "allow_rows_used_in_fit": allow_rows_used_in_fit}
        labelled = tau, eta, delta, rows.X, rows.y
        rule: FlagRule | GroupRule
        if groups is not None:
            rule = scorer.locus.certify_groups(groups, *labelled, **settings)
        else:
            settings |= {"starts": starts, "clusters": rows.clusters}
            rule = scorer.locus.certify(*labelled, **settings)
    saving.save(terminal, Scorer(scorer.locus, rule, scorer.alphas), rows.sample, reading.key)
