"""What a rule claims and the numbers behind it: one small class per kind of claim."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from locuscore._shared.shown import Shown


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate(Shown):
    """Base of all kinds: the fields that are not None are the evidence for a rule."""

    @property
    def evidence(self) -> dict[str, Any]:
        """The numbers by name, in the order in which the card prints them."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        # A number of rows that is infinite does not exist, and is told as None.
        return {k: None if v == math.inf else v for k, v in values.items() if v is not None}


@dataclass(frozen=True, kw_only=True, repr=False)
class JointClaim(Certificate):
    """``P(Z > tau and accepted) <= alpha`` (Theorem 3), from n calibration rows at rank k.

    For other calibrations than the marginal one the rule's guarantee says what holds instead, and
    there is no rank. Given these rows, the coverage is a draw of ``Beta(*coverage_beta)``.
    `calibration` is the digest of the calibration that the bound is made with: the rule holds for
    no other.

    Examples
    --------
    >>> from locuscore import tau_rule
    >>> claim = tau_rule(tau=500, alpha=0.1, n_calibration=999).certificate
    >>> claim.tau, claim.alpha, claim.k
    (500.0, 0.1, 900)
    """

    tau: float
    alpha: float
    n: int | None = None
    k: int | None = None
    level: float | None = None
    coverage_beta: tuple[float, float] | None = None
    calibration: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ExceedanceCertificate(Certificate):
    """``P(Z > tau | accepted) <= eta``, which fails with probability at most delta.

    `thresholds` says which ones were tested. A test in sequence has its starts: how many rows each
    accepts, and the part of delta it has; the paper's bound has its slacks. Then come what the
    certified threshold accepts, or the rows that would have been needed: inf if no number of rows
    would do. `calibration` is the digest of the calibration of a bound or exceedance.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_threshold
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=2000)
    >>> losses = rng.uniform(size=2000) < 0.02 + 0.6 * score**2
    >>> claim = certify_threshold(score, losses, tau=0.5, eta=0.1, delta=0.1).certificate
    >>> claim.eta, claim.delta, claim.n_rows
    (0.1, 0.1, 2000)
    >>> claim.n_bad <= 0.1 * claim.n_accepted
    True
    """

    n_rows: int | None = None
    tau: float
    eta: float
    delta: float
    thresholds: str | None = None
    starts_at_n: tuple[int, ...] | None = None
    start_levels: tuple[float, ...] | None = None
    slack_joint: float | None = None
    slack_accepted: float | None = None
    n_accepted: int | None = None
    n_bad: int | None = None
    acceptance: float | None = None
    p_value: float | None = None
    accepted_rows_needed_without_a_bad_one: int | None = None
    rows_needed_at_this_rate: float | None = None
    rows_needed_without_a_bad_one: int | None = None
    rows_also_in_fit: int | None = None
    calibration: str | None = None
    rows_digest: str | None = None
    together: str | None = None  # names the call of certify_claims that shared the delta


@dataclass(frozen=True, repr=False)
class GroupCertificate(Certificate):
    """An `ExceedanceCertificate` for the rows of one group, or of one pool of groups, alone.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_groups
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=2000)
    >>> losses = rng.uniform(size=2000) < 0.02 + 0.6 * score**2
    >>> town = np.where(np.arange(2000) % 2, "north", "south")
    >>> rule = certify_groups(score, losses, town, tau=0.5, eta=0.1, delta=0.1)
    >>> claim = rule.rules["north"].certificate
    >>> claim.group, claim.within.eta
    ("group 'north'", 0.1)
    """

    group: str
    within: ExceedanceCertificate

    @property
    def evidence(self) -> dict[str, Any]:
        """The group, and the evidence within it."""
        return {"group": self.group, **self.within.evidence}


@dataclass(frozen=True, kw_only=True, repr=False)
class MeanLossCertificate(Certificate):
    """``E[Z | accepted] <= eta`` for losses in [low, high], which fails with probability delta.

    What the certified threshold accepts; or what the first one did, and the rows needed.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_mean_loss
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=200)
    >>> losses = score * rng.uniform(size=200)
    >>> claim = certify_mean_loss(score, losses, eta=0.4, delta=0.1, support=(0, 1)).certificate
    >>> claim.mean_loss < claim.eta
    True
    """

    n_rows: int | None = None
    eta: float
    delta: float
    low: float
    high: float
    thresholds: str | None = None
    n_accepted: int | None = None
    acceptance: float | None = None
    mean_loss: float | None = None
    p_value: float | None = None
    accepted_rows_needed_without_any_loss: int | None = None
    start_n: int | None = None
    start_mean_loss: float | None = None
    start_p_value: float | None = None
    rows_needed_at_this_mean: int | None = None
    rows_digest: str | None = None
    together: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ClusterCertificate(Certificate):
    """``P(Z > tau | accepted) <= eta`` for a random row of a random cluster, each counting once.

    It fails with probability at most delta, over the draw of the certifying clusters. Shares count
    each cluster once. Without a threshold, the p-value at the first and the clusters needed.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_clusters
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=2000)
    >>> losses = rng.uniform(size=2000) < 0.02 + 0.6 * score**2
    >>> day = np.arange(2000) // 10
    >>> rule = certify_clusters(score, losses, day, tau=0.5, eta=0.2, delta=0.1)
    >>> rule.certificate.n_clusters, rule.certificate.eta
    (160, 0.2)
    """

    n_clusters: int
    n_rows: int | None = None
    tau: float
    eta: float
    delta: float
    thresholds: str | None = None
    n_accepted: int | None = None
    n_bad: int | None = None
    acceptance: float | None = None
    exceedance: float | None = None
    p_value: float | None = None
    start_p_value: float | None = None
    clusters_needed_without_a_bad_row: int | None = None
    rows_also_in_fit: int | None = None
    calibration: str | None = None
    rows_digest: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class WeightedCertificate(Certificate):
    """``P(Z > tau | accepted) <= eta`` among new rows of another mix, which fails with delta.

    `effective_rows` is the number of rows of equal weight that the certifying rows are worth;
    `acceptance` and `exceedance` are weighted. The rest is as in `MeanLossCertificate`.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_weighted
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=500)
    >>> losses = rng.uniform(size=500) < 0.02 + 0.6 * score**2
    >>> weights = 0.5 + rng.uniform(size=500)
    >>> most = 1.5  # the largest weight of a new row
    >>> rule = certify_weighted(score, losses, weights, 0.5, 0.3, 0.1, largest_weight=most)
    >>> rule.certificate.effective_rows < 500
    True
    """

    n_rows: int | None = None
    tau: float
    eta: float
    delta: float
    largest_weight: float
    effective_rows: float | None = None
    thresholds: str | None = None
    n_accepted: int | None = None
    acceptance: float | None = None
    exceedance: float | None = None
    p_value: float | None = None
    start_n: int | None = None
    start_exceedance: float | None = None
    start_p_value: float | None = None
    accepted_rows_needed_without_a_bad_one: int | None = None
    rows_digest: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class CascadeCertificate(Certificate):
    """``P(Z > tau | sent) <= eta`` for a cascade of models, which fails with probability delta.

    Z is the loss of the answer that is sent. `among` says what the share of bad answers is of. Then
    come what the certified step of the path sends: the share of questions that each model and the
    person answer, and the mean cost of a question; or the rows that would have been needed: inf if
    no number of rows would do.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_cascade
    >>> rng = np.random.default_rng(0)
    >>> doubt = rng.uniform(size=(1000, 2))
    >>> losses = (rng.uniform(size=(1000, 2)) < 0.3 * doubt**2).astype(float)
    >>> rule = certify_cascade(doubt, losses, tau=0.5, eta=0.1, delta=0.1, costs=[1, 10, 100])
    >>> rule.certificate.n_models, rule.certificate.eta
    (2, 0.1)
    """

    n_models: int
    n_rows: int | None = None
    tau: float
    eta: float
    delta: float
    among: str = "answers sent"
    costs: tuple[float, ...] = ()
    thresholds: str | None = None
    start_n: int | None = None
    start_bad: int | None = None
    step: int | None = None
    n_sent: int | None = None
    n_bad: int | None = None
    answered_by: tuple[float, ...] | None = None
    cost: float | None = None
    p_value: float | None = None
    accepted_rows_needed_without_a_bad_one: int | None = None
    rows_needed_at_this_rate: float | None = None
    rows_digest: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class TunedExceedance(Certificate):
    """A heuristic: `exceedance` among the accepted rows came closest to eta.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import tune_threshold
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=2000)
    >>> losses = rng.uniform(size=2000) < 0.02 + 0.6 * score**2
    >>> found = tune_threshold(score, losses, tau=0.5, eta=0.1).certificate
    >>> round(found.exceedance, 2)
    0.1
    """

    n_rows: int | None = None
    tau: float
    eta: float
    n_accepted: int | None = None
    n_bad: int | None = None
    acceptance: float | None = None
    exceedance: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class MatchedAcceptance(Certificate):
    """A heuristic: how many rows the threshold accepts, and nothing about their losses."""

    n_rows: int
    n_accepted: int
    acceptance: float


@dataclass(frozen=True, repr=False)
class OtherEvidence(Certificate):
    """Numbers of a rule that was made by hand, of which the library claims nothing."""

    values: Mapping[str, Any]

    @property
    def evidence(self) -> dict[str, Any]:
        """The numbers as they were given."""
        return dict(self.values)


SHARES = frozenset(("alpha", "delta", "level", "acceptance", "exceedance", "p_value"))
KINDS: tuple[type[Any], ...] = (
    JointClaim,
    ExceedanceCertificate,
    WeightedCertificate,
    ClusterCertificate,
    CascadeCertificate,
    TunedExceedance,
    MeanLossCertificate,
    MatchedAcceptance,
)


def certificate_from(evidence: Mapping[str, Any]) -> Certificate:
    """The certificate with this evidence, as archives and rules made by hand have it."""
    values = {key: math.inf if value is None else value for key, value in evidence.items()}
    group = values.pop("group", None)
    for kind in KINDS:
        if _has_names_of(values, kind) and not _misfits(values, kind):
            found: Certificate = kind(**values)
            if group is None:
                return found
            if isinstance(group, str) and isinstance(found, ExceedanceCertificate):
                return GroupCertificate(group, found)
    return OtherEvidence(evidence)


def misfits(certificate: Certificate) -> list[str]:
    """Names of the numbers that keep evidence from being that of a claim of ours; empty if none.

    Evidence of other names is of a claim that is not ours, which may have any values.
    """
    if not isinstance(certificate, OtherEvidence):
        return []
    values = {key: math.inf if one is None else one for key, one in certificate.values.items()}
    values.pop("group", None)
    found = [_misfits(values, kind) for kind in KINDS if _has_names_of(values, kind)]
    return min(found, key=len, default=[])


def _has_names_of(values: Mapping[str, Any], kind: type[Any]) -> bool:
    needed = {part.name for part in fields(kind) if part.default is MISSING}
    return needed <= values.keys() <= {part.name for part in fields(kind)}


def _misfits(values: Mapping[str, Any], kind: type[Any]) -> list[str]:
    """Names of the values that are not of the type of their field, or out of its range."""
    return [
        part.name
        for part in fields(kind)
        if part.name in values and not _is_possible(values[part.name], part, kind)
    ]


def _is_possible(value: Any, part: Field[Any], kind: type[Any]) -> bool:
    if not _is_of(value, part.type):
        return False
    if part.default is MISSING and not math.isfinite(value):
        return False
    is_share = part.name in SHARES or (part.name == "eta" and kind is not MeanLossCertificate)
    return not (is_share and (value < 0 or value > 1))  # NaN is a share of no rows


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a value has the type of a field; counts are not negative."""
    if isinstance(kind, UnionType):
        return any(_is_of(value, one) for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        is_long = isinstance(value, tuple) and (inner[-1] is ... or len(value) == len(inner))
        return is_long and all(_is_of(one, inner[0]) and one >= 0 for one in value)
    if kind is str:
        return isinstance(value, str)
    if type(value) is float:  # a number of rows that is infinite does not exist
        return kind is float or value == math.inf
    return type(value) is int and (kind is float or value >= 0)
