"""How bad can this one prediction be, and may I act on it?

`Locus` wraps a fitted predictor and a loss, and bounds the loss of each single prediction.
"""

from typing import TYPE_CHECKING

from locuscore._shared.lazy_names import lazy_names

if TYPE_CHECKING:
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
    from locuscore._rules.anytime import AnytimeCertificate, anytime_certificate
    from locuscore._rules.batch import BatchSelection, select_batch
    from locuscore._rules.batch_loss import LossSelection, select_mean_loss, select_total_loss
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
    from locuscore._rules.certificate_plan import CertificatePlan, plan_certificate
    from locuscore._rules.certify import (
        certify_threshold,
        certify_threshold_holm,
        certify_threshold_paper,
    )
    from locuscore._rules.certify_clusters import certify_clusters
    from locuscore._rules.claims import (
        ExceedanceClaim,
        MeanLossClaim,
        certify_claims,
        combined_delta,
    )
    from locuscore._rules.curve import OperatingCurve, operating_curve
    from locuscore._rules.group_rule import GroupRule
    from locuscore._rules.groups import certify_groups
    from locuscore._rules.labels import LabelPlan, plan_labels
    from locuscore._rules.mean_loss import certify_mean_loss, mean_loss_bound, mean_loss_p_value
    from locuscore._rules.plan import (
        RowPlan,
        rows_for_bound,
        rows_for_certificate,
        rows_for_coverage,
    )
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

__version__ = "0.2.0.dev0"

# Where each name lives: its module is imported when the name is first asked for, so that
# ``locuscore --help`` does not wait for scikit-learn.
_HOMES = {
    "AdaptiveBounds": "_stream.adaptive",
    "AnytimeCertificate": "_rules.anytime",
    "ArchiveError": "_archive.container",
    "BatchSelection": "_rules.batch",
    "CascadeCertificate": "_rules.certificate",
    "CascadeRule": "_rules.cascade_rule",
    "CertificatePlan": "_rules.certificate_plan",
    "ClusterCertificate": "_rules.certificate",
    "Column": "_row_columns",
    "ExceedanceCertificate": "_rules.certificate",
    "ExceedanceClaim": "_rules.claims",
    "ExceedanceInterval": "_rules.route",
    "FlagRule": "_rules.rule",
    "Given": "_row_scores",
    "GroupCertificate": "_rules.certificate",
    "GroupRule": "_rules.group_rule",
    "JointClaim": "_rules.certificate",
    "KNNGamma": "_laws.gamma",
    "Kept": "_shared.kept",
    "LabelPlan": "_rules.labels",
    "Locus": "_locus",
    "LocusWarning": "_shared.checks",
    "LossSelection": "_rules.batch_loss",
    "MeanLossCertificate": "_rules.certificate",
    "MeanLossClaim": "_rules.claims",
    "OperatingCurve": "_rules.curve",
    "Reuse": "_inputs.used_rows",
    "Routing": "_rules.route",
    "RowBlock": "_row_scores",
    "RowLaws": "_laws.scores",
    "RowPlan": "_rules.plan",
    "Schema": "_inputs.schema",
    "Score": "_laws.scores",
    "Scorer": "_scorer",
    "TunedExceedance": "_rules.certificate",
    "WeightedCertificate": "_rules.certificate",
    "anytime_certificate": "_rules.anytime",
    "certify_cascade": "_rules.cascade",
    "certify_claims": "_rules.claims",
    "certify_clusters": "_rules.certify_clusters",
    "certify_groups": "_rules.groups",
    "certify_mean_loss": "_rules.mean_loss",
    "certify_threshold": "_rules.certify",
    "certify_threshold_holm": "_rules.certify",
    "certify_threshold_paper": "_rules.certify",
    "certify_weighted": "_rules.weighted",
    "collected_unseen": "_inputs.unseen",
    "combined_delta": "_rules.claims",
    "conformal_rank": "_laws.calibration",
    "cost": "_inputs.losses",
    "cost_per_unit": "_inputs.losses",
    "exceedance_interval": "_rules.route",
    "inspect_archive": "_archive.manifest",
    "load_predictor": "_archive.predictor_files",
    "match_acceptance": "_rules.tune",
    "mean_loss_bound": "_rules.mean_loss",
    "mean_loss_p_value": "_rules.mean_loss",
    "ndcg": "_inputs.losses",
    "norm": "_inputs.losses",
    "operating_curve": "_rules.curve",
    "pinball": "_inputs.losses",
    "plan_certificate": "_rules.certificate_plan",
    "plan_labels": "_rules.labels",
    "prediction_column": "_inputs.predictor",
    "read_manifest": "_archive.container",
    "relative": "_inputs.losses",
    "route": "_rules.route",
    "route_by_cost": "_rules.route",
    "rows_for_bound": "_rules.plan",
    "rows_for_certificate": "_rules.plan",
    "rows_for_coverage": "_rules.plan",
    "select_batch": "_rules.batch",
    "select_mean_loss": "_rules.batch_loss",
    "select_total_loss": "_rules.batch_loss",
    "tau_rule": "_rules.rule",
    "tune_alpha": "_rules.tune",
    "tune_threshold": "_rules.tune",
}
# Folders that can be named after ``import locuscore`` alone. The others are shells.
_FOLDERS = ("calibration", "draws", "engines", "metrics")

__all__ = [
    "AdaptiveBounds",
    "AnytimeCertificate",
    "ArchiveError",
    "BatchSelection",
    "CascadeCertificate",
    "CascadeRule",
    "CertificatePlan",
    "ClusterCertificate",
    "Column",
    "ExceedanceCertificate",
    "ExceedanceClaim",
    "ExceedanceInterval",
    "FlagRule",
    "Given",
    "GroupCertificate",
    "GroupRule",
    "JointClaim",
    "KNNGamma",
    "Kept",
    "LabelPlan",
    "Locus",
    "LocusWarning",
    "LossSelection",
    "MeanLossCertificate",
    "MeanLossClaim",
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
    "anytime_certificate",
    "certify_cascade",
    "certify_claims",
    "certify_clusters",
    "certify_groups",
    "certify_mean_loss",
    "certify_threshold",
    "certify_threshold_holm",
    "certify_threshold_paper",
    "certify_weighted",
    "collected_unseen",
    "combined_delta",
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
    "plan_certificate",
    "plan_labels",
    "prediction_column",
    "read_manifest",
    "relative",
    "route",
    "route_by_cost",
    "rows_for_bound",
    "rows_for_certificate",
    "rows_for_coverage",
    "select_batch",
    "select_mean_loss",
    "select_total_loss",
    "tau_rule",
    "tune_alpha",
    "tune_threshold",
]

# Hidden from type checkers, for whom every name would exist.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES, _FOLDERS)
