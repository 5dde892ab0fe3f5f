"""``locuscore recalibrate``: new calibration rows for an archive, the same loss model."""

from typing import TypeAlias

from locuscore import FlagRule, GroupRule, JointClaim, Locus, Scorer
from locuscore.cli import _options as options
from locuscore.cli._fit import SavingOptions
from locuscore.cli._labelled import read_fresh
from locuscore.cli._option_values import ArchiveOptions, check_output
from locuscore.cli._terminal import Terminal


def recalibrate(
    *,
    archive: options.Archive,
    data: options.Data,
    target: options.TargetAgain = None,
    half_life: options.HalfLife = None,
    clusters: options.ClusterColumn = None,
    drop_rule: options.DropRule = False,
    reading: ArchiveOptions,
    saving: SavingOptions,
    loss: options.LossAgain = None,
    max_rows: options.MaxRows = options.MAX_ROWS,
    seed: options.Seed = 0,
    terminal: Terminal,
) -> None:
    """Calibrate an archive anew on recent labelled rows; write a new archive.

    The loss model stays, so the rows must not be those it was fitted on. A rule on the bound at tau
    is made anew, a rule on the tail stays, and any other rule is void: certify it again.
    """
    check_output(saving.output, data, reading.predictor, reading.key_file)
    scorer = reading.load(archive, loss)
    reading.warn_if_unsigned(archive)
    rows = read_fresh(terminal, scorer, data, target, clusters, max_rows, seed)
    sample = rows.sample
    if half_life is not None and sample.n_dropped:
        raise ValueError(
            f"a half-life counts all rows, but only {sample.rows.num_rows:,} of {sample.n_read:,} "
            f"were read; raise --max-rows to {sample.n_read}, or pass a file of the recent rows."
        )
    with terminal.working(f"recalibrating on {len(rows.y):,} rows"):
        locus = scorer.locus.recalibrate(
            rows.X, rows.y, half_life=half_life, clusters=rows.clusters
        )
    rule = None if drop_rule else _rule_after(scorer.rule, locus)
    saving.save(terminal, Scorer(locus, rule, scorer.alphas), sample, reading.key)


Rule: TypeAlias = FlagRule | GroupRule


def _rule_after(rule: Rule | None, locus: Locus) -> Rule | None:
    """The rule that holds with the new calibration; raise if there is none."""
    if rule is None or not rule.score.is_calibrated:
        return rule
    if isinstance(rule, FlagRule) and isinstance(rule.certificate, JointClaim):
        return locus.tau_rule(rule.certificate.tau, rule.certificate.alpha)
    raise ValueError(
        f"the archive's rule was chosen for the {rule.score} of the old calibration, so it is void "
        "now; use --drop-rule, then certify a new one."
    )
