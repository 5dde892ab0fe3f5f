"""FlagRule: which score is thresholded, where, and what that guarantees; and the paper's rule.

Rules are chosen by functions of arrays (a score, the losses). They know no estimator, so an outlier
score or a variance estimate goes through the same functions.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import date
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.calibration import conformal_rank, too_few_rows
from locuscore._laws.scores import UNNAMED, Score
from locuscore._protocols import BoolArray, FloatArray, Rows
from locuscore._rules.card import card, card_html, condition, rule_text
from locuscore._rules.certificate import (
    Certificate,
    ClusterCertificate,
    ExceedanceCertificate,
    GroupCertificate,
    JointClaim,
    certificate_from,
    misfits,
)
from locuscore._shared.accepted import is_accepted
from locuscore._shared.checks import (
    as_floats,
    check_count,
    check_day,
    check_numbers,
    check_share,
    check_unit,
    never_accepted,
    one_alpha,
    one_tau,
)
from locuscore._shared.json_values import from_json, read_only, to_json
from locuscore._shared.optional import require
from locuscore._shared.readable import as_typed

Standing = Literal["theorem", "certificate", "heuristic"]
PARTS = ("score", "threshold", "standing", "guarantee", "assumptions", "evidence", "table")
LATER = ("unit", "valid_until")  # left out where empty, so that older versions read the rule


@dataclass(frozen=True, eq=False, init=False, repr=False)
class FlagRule:
    """Accept a row when its score is at most the threshold, flag it otherwise.

    A threshold of -inf accepts nothing; an infinite score, of either sign, is never accepted.
    `standing` says whether `guarantee` is a theorem for a rule fixed in advance, a certificate from
    data, or a heuristic. `certificate` holds the claim and the numbers behind it, in a class for
    each kind of claim; `evidence` is the same as a read-only mapping, from which a rule can be made
    too. `table` has one entry per threshold that was tried. `unit` is that of the losses, such as
    dollars, or empty; the card shows it. `valid_until` is the last day on which the rule is to be
    used, as in 2027-06-30, or empty; `locuscore.watch` asks for a new one afterwards.

    Examples
    --------
    >>> from locuscore import tau_rule
    >>> rule = tau_rule(tau=500, alpha=0.1)
    >>> rule.standing
    'theorem'
    >>> rule.accepts([120.0, 900.0], rule.score)
    array([ True, False])
    """

    score: Score
    threshold: float
    standing: Standing
    guarantee: str
    assumptions: tuple[str, ...]
    certificate: Certificate
    table: Mapping[str, tuple[float, ...]]
    unit: str
    valid_until: str

    def __init__(
        self,
        score: Score,
        threshold: float,
        standing: Standing,
        guarantee: str,
        assumptions: tuple[str, ...] = (),
        evidence: Mapping[str, Any] | None = None,
        table: Mapping[str, tuple[float, ...]] = MappingProxyType({}),
        *,
        certificate: Certificate | None = None,
        unit: str = "",
        valid_until: str = "",
    ) -> None:
        if not isinstance(score, Score):
            raise TypeError(f"score must be a Score; got {score!r}.")
        number = check_numbers(threshold, "threshold")
        if number.ndim or np.isnan(number):
            raise ValueError(f"threshold must be one number, not NaN; got {threshold!r}.")
        if standing not in get_args(Standing):
            raise ValueError(f"standing is one of {get_args(Standing)}; got {standing!r}.")
        if not isinstance(guarantee, str):
            raise TypeError(f"guarantee must be text; got {guarantee!r}.")
        if certificate is None or evidence is not None:
            given = _read_only({} if evidence is None else evidence, "evidence")
            certificate = certificate_from(given)
        if not isinstance(certificate, Certificate):
            raise TypeError(f"certificate must be a Certificate; got {certificate!r}.")
        wrong = [] if standing == "heuristic" else misfits(certificate)
        if wrong:
            got = (f"{name} = {certificate.evidence[name]!r:.50}" for name in wrong)
            raise ValueError(
                f"the evidence of a {standing} must have numbers that are possible; got "
                f"{', '.join(got)}."
            )
        if not all(isinstance(one, str) for one in assumptions):
            raise TypeError(f"assumptions must be texts; got {assumptions!r:.200}.")
        values = (score, float(number), standing, guarantee, tuple(assumptions), certificate)
        last = (_columns(table), check_unit(unit), check_day(valid_until))
        for part, value in zip(fields(self), (*values, *last), strict=True):
            object.__setattr__(self, part.name, value)

    @property
    def evidence(self) -> Mapping[str, Any]:
        """The numbers behind the guarantee by name, read-only."""
        return MappingProxyType(self.certificate.evidence)

    def __eq__(self, other: object) -> bool:
        # In plain types, where a missing number equals itself.
        return isinstance(other, FlagRule) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.score, self.threshold, self.standing, self.guarantee, self.assumptions))

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only mappings can be neither pickled nor copied.
        return type(self).from_dict, (self.to_dict(),)

    def until(self, day: str | date) -> Self:
        """The same rule, to be used up to this day and made again on fresh rows afterwards."""
        return replace(self, valid_until=str(day))

    @property
    def accepts_nothing(self) -> bool:
        """Whether no row can be accepted."""
        return self.threshold == -np.inf

    @property
    def asks(self) -> str | None:
        """Nothing has to be passed with new rows; see `GroupRule.asks`."""
        return None

    def labels(self, X: Rows, groups: Any = None) -> Any:
        """None: all rows have the same threshold, whatever their group; see `GroupRule.labels`."""
        return None

    def accepts(self, values: ArrayLike, of: Score | None = None, groups: Any = None) -> BoolArray:
        """Whether each row is accepted; `of` says which score the values are, and must agree.

        It may be left out where the rule's own score has no name. Only a `GroupRule` has a use for
        `groups`.
        """
        if groups is not None:
            raise ValueError("this rule has one threshold for all rows and no use for groups.")
        return is_accepted(self.checked(values, of), self.threshold)

    def checked(self, values: ArrayLike, of: Score | None = None) -> FloatArray:
        """Return values of the rule's own score, checked."""
        if (of if of is not None else UNNAMED) != self.score:
            got = "values of no named score" if of in (None, UNNAMED) else f"the {of}"
            raise ValueError(f"this rule thresholds the {self.score}; got {got}.")
        scores = as_floats(values, "values")
        if scores.ndim > 1:
            raise ValueError(f"values must be one score per row; got shape {scores.shape}.")
        missing = int(np.isnan(scores).sum())
        if missing:
            raise ValueError(f"{missing} scores are missing (NaN).")
        return never_accepted(scores) if scores.size else scores

    def __str__(self) -> str:
        return card(self)

    def __repr__(self) -> str:
        return rule_text(self, condition(self), self.evidence)

    def _repr_html_(self) -> str:
        return card_html(self)

    def to_frame(self) -> Any:
        """The thresholds that were tried, one row each, as a pandas frame."""
        return require("pandas", extra="demo").DataFrame(dict(self.table))

    def to_dict(self) -> dict[str, Any]:
        """The rule in the types JSON has; infinite numbers are the strings "inf" and "-inf"."""
        later = [name for name in LATER if getattr(self, name)]
        values = {name: getattr(self, name) for name in (*PARTS, *later)}
        described: dict[str, Any] = to_json(values | {"score": self.score.to_dict()})
        return described

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The rule that `to_dict` described."""
        known = {*PARTS, *LATER}
        if not isinstance(data, Mapping) or set(data) - known or "score" not in data:
            raise ValueError(f"a rule is described by {sorted(PARTS)}; got {data!r:.200}.")
        if not isinstance(data["score"], Mapping):
            raise TypeError(f"score must be a mapping; got {data['score']!r}.")
        values = {key: from_json(value) for key, value in data.items()}
        try:
            return cls(**values | {"score": Score.from_dict(data["score"])})
        except TypeError as error:
            raise TypeError(f"this describes no rule: {error}") from error


def made_with(rule: FlagRule, calibration: str | None, unit: str = "") -> FlagRule:
    """The rule in the unit of its losses.

    It has the digest of the calibration that its score takes levels from, if it does.
    """
    rule = replace(rule, unit=unit)
    claim = rule.certificate
    if not rule.score.is_calibrated:
        return rule
    if isinstance(claim, GroupCertificate):
        claim = replace(claim, within=replace(claim.within, calibration=calibration))
    elif isinstance(claim, JointClaim | ExceedanceCertificate | ClusterCertificate):
        claim = replace(claim, calibration=calibration)
    return replace(rule, certificate=claim)


def check_calibration(rule: FlagRule, calibration: str | None) -> None:
    """Raise if a rule was made with another calibration than the one that scores."""
    made = rule.evidence.get("calibration") if rule.score.is_calibrated else None
    if made is None or calibration is None or made == calibration:
        return
    if isinstance(rule.certificate, JointClaim):
        again = f"tau_rule({rule.certificate.tau:g}, {rule.certificate.alpha:g}) of this Locus"
    else:
        again = "certify of this Locus, with fresh rows X and y"
    raise ValueError(
        f"this rule thresholds the {rule.score} of another calibration ({made}, and this Locus has "
        f"{calibration}), so its guarantee is void here. Recalibrating voids rules on the bound "
        f"and the exceedance; make it again with {again}."
    )


def tau_rule(
    tau: float,
    alpha: float,
    *,
    n_calibration: int | None = None,
    level: float | None = None,
    promise: str | None = None,
    standing: Standing = "theorem",
) -> FlagRule:
    """Accept when the loss bound at alpha is at most tau, the paper's ``lambda = tau``.

    ``P(Z > tau and accepted) <= alpha`` (Theorem 3). With the number of calibration rows the card
    also shows the rank k and the distribution of the realised coverage; `Locus.tau_rule` passes it.
    Where the bound is calibrated otherwise, `promise` is what holds for it, and so for the rule: an
    accepted row with a loss above tau has a loss above its bound.

    Examples
    --------
    >>> from locuscore import tau_rule
    >>> rule = tau_rule(tau=500, alpha=0.1)
    >>> rule.threshold, rule.standing
    (500.0, 'theorem')
    """
    score, tau = Score.bound(alpha), one_tau(tau)
    share = one_alpha(alpha)
    claim = JointClaim(tau=tau, alpha=share)
    guarantee = (
        f"P(loss > {as_typed(tau)} and accepted) <= {share:g} (Theorem 3), over the calibration "
        "rows and one new row together. It bounds the share of all rows that are accepted and bad, "
        "not the share of bad rows among the accepted."
    )
    if promise is not None:
        holds = "promise holds" if standing == "theorem" else "heuristic is all there is"
        guarantee = (
            f"An accepted row with a loss above {as_typed(tau)} has a loss above its bound, so the "
            f"bound's {holds} for such rows: {promise}"
        )
        assumptions: tuple[str, ...] = ("tau and alpha chosen without the calibration losses",)
        return FlagRule(score, tau, standing, guarantee, assumptions, certificate=claim)
    if n_calibration is not None:
        n = check_count(n_calibration, "n_calibration")
        k = conformal_rank(n, share)
        at_level = None if level is None else check_share(level, "level")
        # The coverage given n calibration rows is that of the k-th smallest of n uniform draws.
        beta = (float(k), float(n + 1 - k)) if k <= n else None
        claim = replace(claim, n=n, k=k, level=at_level, coverage_beta=beta)
        guarantee += "" if k <= n else " But " + too_few_rows(n, share)
    assumptions = (
        "new rows exchangeable with the calibration rows, given the fitted loss model",
        "tau and alpha chosen without the calibration losses",
    )
    return FlagRule(score, tau, "theorem", guarantee, assumptions, certificate=claim)


def with_rows_of_fit(rule: FlagRule, n_found: int, n_rows: int, *, were_used: bool) -> FlagRule:
    """The rule, with the number of its certifying rows that `fit` had seen.

    If they were used to fit, beyond chance repeats, it is a heuristic that proves nothing.
    """
    found = rule.certificate
    if isinstance(found, ExceedanceCertificate | ClusterCertificate):
        found = replace(found, rows_also_in_fit=n_found)
    if not were_used:
        return replace(rule, certificate=found)
    guarantee = (
        f"Nothing is guaranteed: {n_found:,} of the {n_rows:,} certifying rows were used to fit, "
        "which was allowed on demand (allow_rows_used_in_fit)."
    )
    return replace(rule, standing="heuristic", guarantee=guarantee, certificate=found)


def _read_only(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping; got {value!r}.")
    copied: Mapping[str, Any] = read_only(value)
    return copied


def _is_number(value: Any) -> bool:
    # Cards show it as a float, which a whole number of JSON need not fit.
    is_whole = isinstance(value, int) and abs(value) <= sys.float_info.max
    return is_whole or isinstance(value, float)


def _columns(table: Any) -> Mapping[str, tuple[float, ...]]:
    """A read-only table, if its columns are numbers and equally long."""
    found = _read_only(table, "table")
    columns = list(found.values())
    are_numbers = all(
        isinstance(column, tuple) and all(map(_is_number, column)) for column in columns
    )
    if not are_numbers or len(set(map(len, columns))) > 1:
        raise ValueError("table must have columns of numbers, all of one length.")
    return found
