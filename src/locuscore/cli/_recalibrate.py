"""``locuscore recalibrate``: new calibration rows for an archive, the same loss model."""

from typing import TypeAlias

from locuscore import FlagRule, GroupRule, JointClaim, Locus, Scorer
from locuscore.cli import _options as options
from locuscore.cli._calibration import cluster_labels
from locuscore.cli._fit import SavingOptions, known_target, read_labelled, split_target
from locuscore.cli._option_values import ArchiveOptions, check_output, missing_columns
from locuscore.cli._stream import csv_types, feature_columns
from locuscore.cli._tables import open_table
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
    label = known_target(scorer, target)
    types = csv_types(scorer)
    types = None if types is None else {**types, label: None}
    source = open_table(data, types)
    others = {label, clusters} if scorer.schema.kind == "array" else {label}
    names = feature_columns(scorer, data, [n for n in source.names if n not in others])
    own = [] if clusters is None else [clusters]
    missing_columns(data, own, source.names)
    wanted = list(dict.fromkeys([*names, label, *own]))
    sample = read_labelled(terminal, source, wanted, [label], max_rows, seed)
    X, y = split_target(sample, names, label)
    labels = None if clusters is None else cluster_labels(sample, clusters)
    with terminal.working(f"recalibrating on {len(y):,} rows"):
        locus = scorer.locus.recalibrate(
            scorer.schema.conform(X), y, half_life=half_life, clusters=labels
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
