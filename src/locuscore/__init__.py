"""How bad can this one prediction be, and may I act on it?

`Locus` wraps a fitted predictor and a loss, and bounds the loss of each single prediction.
"""

from locuscore._archive.container import ArchiveError, read_manifest
from locuscore._archive.manifest import inspect_archive
from locuscore._archive.predictor_files import load_predictor
from locuscore._inputs.losses import cost, cost_per_unit, ndcg, norm, pinball, relative
from locuscore._inputs.predictor import prediction_column
from locuscore._inputs.schema import Schema
from locuscore._inputs.unseen import collected_unseen
from locuscore._inputs.used_rows import Reuse
from locuscore._laws.calibration import conformal_rank
from locuscore._laws.gamma import KNNGamma
from locuscore._laws.scores import RowLaws, Score
from locuscore._locus import Locus
from locuscore._row_columns import Column
from locuscore._row_scores import Given, RowBlock
from locuscore._rules.batch import BatchSelection, select_batch
from locuscore._rules.cascade import certify_cascade
from locuscore._rules.cascade_rule import CascadeRule
from locuscore._rules.certificate import (
    CascadeCertificate,
    ClusterCertificate,
    ExceedanceCertificate,
    GroupCertificate,
    JointClaim,
    MeanLossCertificate,
    TunedExceedance,
    WeightedCertificate,
)
from locuscore._rules.certify import (
    certify_threshold,
    certify_threshold_holm,
    certify_threshold_paper,
)
from locuscore._rules.certify_clusters import certify_clusters
from locuscore._rules.curve import OperatingCurve, operating_curve
from locuscore._rules.group_rule import GroupRule
from locuscore._rules.groups import certify_groups
from locuscore._rules.mean_loss import certify_mean_loss, mean_loss_bound, mean_loss_p_value
from locuscore._rules.plan import RowPlan, rows_for_bound, rows_for_certificate, rows_for_coverage
from locuscore._rules.route import (
    ExceedanceInterval,
    Routing,
    exceedance_interval,
    route,
    route_by_cost,
)
from locuscore._rules.rule import FlagRule, tau_rule
from locuscore._rules.tune import match_acceptance, tune_alpha, tune_threshold
from locuscore._rules.weighted import certify_weighted
from locuscore._scorer import Scorer
from locuscore._shared.checks import LocusWarning
from locuscore._shared.kept import Kept
from locuscore._stream.adaptive import AdaptiveBounds

__all__ = [
    "AdaptiveBounds",
    "ArchiveError",
    "BatchSelection",
    "CascadeCertificate",
    "CascadeRule",
    "ClusterCertificate",
    "Column",
    "ExceedanceCertificate",
    "ExceedanceInterval",
    "FlagRule",
    "Given",
    "GroupCertificate",
    "GroupRule",
    "JointClaim",
    "KNNGamma",
    "Kept",
    "Locus",
    "LocusWarning",
    "MeanLossCertificate",
    "OperatingCurve",
    "Reuse",
    "Routing",
    "RowBlock",
    "RowLaws",
    "RowPlan",
    "Schema",
    "Score",
    "Scorer",
    "TunedExceedance",
    "WeightedCertificate",
    "certify_cascade",
    "certify_clusters",
    "certify_groups",
    "certify_mean_loss",
    "certify_threshold",
    "certify_threshold_holm",
    "certify_threshold_paper",
    "certify_weighted",
    "collected_unseen",
    "conformal_rank",
    "cost",
    "cost_per_unit",
    "exceedance_interval",
    "inspect_archive",
    "load_predictor",
    "match_acceptance",
    "mean_loss_bound",
    "mean_loss_p_value",
    "ndcg",
    "norm",
    "operating_curve",
    "pinball",
    "prediction_column",
    "read_manifest",
    "relative",
    "route",
    "route_by_cost",
    "rows_for_bound",
    "rows_for_certificate",
    "rows_for_coverage",
    "select_batch",
    "tau_rule",
    "tune_alpha",
    "tune_threshold",
]
__version__ = "0.2.0.dev0"
