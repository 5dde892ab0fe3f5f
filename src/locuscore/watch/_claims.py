"""What a deployed scorer promises, as claims that can be tested while it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import Any, Literal, Self, get_args

import numpy as np

from locuscore import (
    ClusterCertificate,
    ExceedanceCertificate,
    FlagRule,
    GroupCertificate,
    GroupRule,
    JointClaim,
    MeanLossCertificate,
    Scorer,
    WeightedCertificate,
)
from locuscore._protocols import BoolArray, Calibration, FloatArray
from locuscore._shared.json_values import to_json
from locuscore._shared.readable import as_typed
from locuscore._shared.shown import Shown

Kind = Literal["coverage", "joint", "accepted", "mean loss", "exchangeable"]
Which = Literal["all", "accepted"]
LONGEST = 200  # characters of a name, which a ledger keeps
EMPTY = '""'  # name of the group whose label is an empty text


@dataclass(frozen=True, kw_only=True, repr=False)
class Claim(Shown):
    """One claim of a scorer: what is promised, of which rows, and what its test must know.

    `promised` is the share or mean that is promised at most; None for exchangeability. `among` says
    of which rows it is, and `labels` which of them need a label: a flagged row is never accepted
    and bad, so a joint share needs none of it, but must see it as often as other rows. `group` has
    the labels of the rows' groups as text, None for all rows; with `is_rest` they are those of the
    other groups. `unit` is what is counted. `share` is the claim's part of the error that a watch
    may make. `urn` has misses and hits (see `UrnAlarm`), `counts` the rows of D2 between the bounds
    at `alphas`, and `delta` is the error of the certificate itself. `why_not` says why the claim is
    not tested, if it is not.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.engines import Scale
    >>> from locuscore.watch import claims_of
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> g = LinearRegression().fit(X[:100], y[:100])
    >>> locus = Locus(g, engine=Scale(), random_state=0).fit(X[100:], y[100:])
    >>> scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1))
    >>> first, *_ = claims_of(scorer)
    >>> first.kind, first.promised, first.among
    ('coverage', 0.1, 'all')
    """

    name: str
    kind: Kind
    promised: float | None = None
    among: Which = "all"
    labels: Which = "all"
    unit: Literal["row", "cluster"] = "row"
    share: float = 0.0
    group: tuple[str, ...] | None = None
    is_rest: bool = False
    alpha: float | None = None
    urn: tuple[int, int] | None = None
    tau: float | None = None
    low: float | None = None
    high: float | None = None
    delta: float | None = None
    alphas: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    why_not: str | None = None

    @property
    def is_tested(self) -> bool:
        """Whether there is an alarm for it."""
        return self.why_not is None

    def to_dict(self) -> dict[str, Any]:
        """The claim in the types JSON has."""
        found: dict[str, Any] = to_json({one.name: getattr(self, one.name) for one in fields(self)})
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The claim that `to_dict` described."""
        names = {one.name for one in fields(cls)}
        if not isinstance(data, Mapping) or set(data) != names or data["kind"] not in KINDS:
            raise ValueError(f"a claim is described by {sorted(names)}; got {data!r:.200}.")
        lists = {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
        return cls(**{**data, **lists})

    def holds_group(self, groups: Sequence[str | None]) -> BoolArray:
        """Which rows the claim is about, by the texts of their groups; None is no known group."""
        if self.group is None:
            return np.ones(len(groups), dtype=bool)
        known = frozenset(self.group)
        found = np.fromiter((one in known for one in groups), dtype=bool, count=len(groups))
        return ~found if self.is_rest else found

    def values(
        self, losses: FloatArray, accepted: BoolArray, bounds: Mapping[float, FloatArray]
    ) -> FloatArray:
        """What its evidence sees of rows: bad or not, the loss itself, or the number of a bin.

        `bounds` has those at each alpha. Clusters are counted from these values.
        """
        z = np.asarray(losses, dtype=np.float64)
        match self.kind:
            case "coverage":
                return np.asarray(z > bounds[_known(self.alpha)], dtype=np.float64)
            case "joint" | "accepted":
                return np.asarray(accepted & (z > _known(self.tau)), dtype=np.float64)
            case "mean loss":
                return z
            case "exchangeable":
                is_within = [z <= bounds[alpha] for alpha in self.alphas]
                return np.sum(is_within, axis=0, dtype=np.float64)


KINDS = get_args(Kind)


def _known(number: float | None) -> float:
    if number is None:
        raise ValueError("this claim lacks a number that its kind has; make it by claims_of.")
    return number


def group_text(label: Any) -> str:
    """The label of a group as text: 1, 1.0 and a number of numpy's are the same."""
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    return str(plain) or EMPTY


def claims_of(scorer: Scorer) -> list[Claim]:
    """All that a scorer promises, tested or not, with the parts of the error that each may use.

    Kinds of claims share the error evenly, coverage at each alpha being one, and so do the groups
    of one kind.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.engines import Scale
    >>> from locuscore.watch import claims_of
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> g = LinearRegression().fit(X[:100], y[:100])
    >>> locus = Locus(g, engine=Scale(), random_state=0).fit(X[100:], y[100:])
    >>> scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1))
    >>> [claim.kind for claim in claims_of(scorer)]
    ['coverage', 'joint', 'exchangeable']
    """
    calibration = scorer.locus.calibration_
    families = [_coverage(calibration, alpha) for alpha in scorer.alphas]
    if isinstance(scorer.rule, FlagRule):
        families.append(_of_rule(scorer.rule, None, calibration))
    elif isinstance(scorer.rule, GroupRule):
        units = [_of_rule(rule, names, calibration) for names, rule in scorer.rule.units]
        families.append([claim for unit in units for claim in unit])
    families.append(_exchangeable(calibration, scorer.alphas))
    return _with_shares([family for family in families if family])


def _with_shares(families: list[list[Claim]]) -> list[Claim]:
    parts = [sum(claim.is_tested for claim in family) for family in families]
    n_tested = sum(part > 0 for part in parts)
    return [
        replace(claim, name=_short(claim.name), share=1.0 / (n_tested * part))
        if claim.is_tested
        else replace(claim, name=_short(claim.name))
        for family, part in zip(families, parts, strict=True)
        for claim in family
    ]


def _urns(calibration: Calibration, alpha: float) -> list[tuple[dict[str, Any], tuple[int, int]]]:
    """Each urn with the fields that say whose it is; those without misses promise nothing."""
    found = calibration.urns(alpha) or {}
    names = tuple(group_text(label) for label in found if label is not None)
    urns = []
    for label, urn in found.items():
        if label is not None:
            where: dict[str, Any] = {"group": (group_text(label),)}
        else:
            where = {"group": names, "is_rest": True} if names else {}
        if urn[0] > 0:
            urns.append((where, urn))
    return urns


def _no_urn(calibration: Calibration, alpha: float) -> str:
    if calibration.promised(alpha) >= 1:
        return "nothing is promised of these bounds"
    if calibration.urns(alpha) is not None:
        return calibration.too_few(alpha) or "no group has a finite bound"
    if calibration.n_clusters is not None:
        return (
            "rows come in clusters, and the law of the misses in new clusters is not known; a rule "
            "that was certified by clusters is tested"
        )
    return "the law of the misses is not known for this calibration"


def _short(name: str) -> str:
    """A name of at most 200 characters; names that differ stay different."""
    if len(name) <= LONGEST:
        return name
    mark = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{name[: LONGEST - 20]} ... ({mark})"


def _where(where: Mapping[str, Any]) -> str:
    """The group of a claim, at the end of its name."""
    if "group" not in where:
        return ""
    return " in other groups" if where.get("is_rest") else f" in {', '.join(where['group'])}"


def _coverage(calibration: Calibration, alpha: float) -> list[Claim]:
    about = f"share of losses above their bound at alpha = {alpha:g}"
    urns = _urns(calibration, alpha)
    common: dict[str, Any] = {"kind": "coverage", "alpha": alpha}
    common["promised"] = calibration.promised(alpha)
    if not urns:
        return [Claim(name=about, why_not=_no_urn(calibration, alpha), **common)]
    return [Claim(name=about + _where(where), urn=urn, **common, **where) for where, urn in urns]


def _exchangeable(calibration: Calibration, alphas: Sequence[float]) -> list[Claim]:
    """Rows of D2 between the bounds, from the urns: at most m0 - 1 are above the bound at alpha.

    With ties they are fewer, and more only makes p-values larger.
    """
    found: dict[tuple[Any, ...], list[tuple[float, int, int]]] = {}
    for alpha in sorted(alphas):
        for where, (misses, hits) in _urns(calibration, alpha):
            found.setdefault(tuple(where.items()), []).append(
                (alpha, misses - 1, hits + misses - 1)
            )
    about = "new rows are exchangeable with the calibration rows"
    if not found:
        return [Claim(name=about, kind="exchangeable", why_not=_no_urn(calibration, max(alphas)))]
    claims = []
    for key, borders in found.items():
        where = dict(key)
        counts = np.diff([0, *(above for _, above, _ in borders), borders[0][2]])
        of_alphas = tuple(alpha for alpha, *_ in borders)
        claims.append(
            Claim(
                name=about + _where(where),
                kind="exchangeable",
                alphas=of_alphas,
                counts=tuple(counts.tolist()),
                **where,
            )
        )
    return claims


def _of_rule(rule: FlagRule, names: Sequence[Any] | None, calibration: Calibration) -> list[Claim]:
    """What a rule promises of all rows, or of those of the groups with these names."""
    certificate: Any = rule.certificate
    where: dict[str, Any] = {}
    if names is not None:
        where["group"] = tuple(group_text(name) for name in names)
    trouble = _no_promise(rule, names)
    if isinstance(certificate, GroupCertificate):
        certificate = certificate.within
    match certificate:
        case JointClaim(tau=tau, alpha=alpha):
            return _joint(calibration, tau, alpha, trouble)
        case ExceedanceCertificate() | WeightedCertificate() | ClusterCertificate():
            is_by_cluster = isinstance(certificate, ClusterCertificate)
            about = f"share of the accepted rows with a loss above {as_typed(certificate.tau)}"
            where["unit"] = "cluster" if is_by_cluster else "row"
            where["tau"] = certificate.tau
            kind: Kind = "accepted"
        case MeanLossCertificate():
            about, kind = "mean loss of the accepted rows", "mean loss"
            where["low"], where["high"] = certificate.low, certificate.high
        case _:
            return []
    return [
        Claim(
            name=about + _where(where),
            kind=kind,
            promised=certificate.eta,
            among="accepted",
            labels="accepted",
            delta=certificate.delta,
            why_not=trouble,
            **where,
        )
    ]


def _no_promise(rule: FlagRule, names: Sequence[Any] | None) -> str | None:
    """Why what a rule's numbers say is not promised of the rows it accepts; None if it is."""
    is_joint = isinstance(rule.certificate, JointClaim)
    if rule.standing != ("theorem" if is_joint else "certificate"):
        return "the rule is a heuristic, which promises nothing"
    if rule.accepts_nothing:
        return "the rule accepts nothing"
    if is_joint and names is not None:
        return "the joint share is promised of all rows, not of those of one group"
    if isinstance(rule.certificate, GroupCertificate) and names is None:
        return "the rule is certified for one group alone, and does not know whose rows it sees"
    return None


def _joint(calibration: Calibration, tau: float, alpha: float, trouble: str | None) -> list[Claim]:
    """Rows that are accepted and bad are above their bound, so they have its urn (Theorem 3)."""
    about = f"share of all rows that are accepted and have a loss above {as_typed(tau)}"
    common: dict[str, Any] = {"kind": "joint", "labels": "accepted", "tau": tau, "alpha": alpha}
    common["promised"] = calibration.promised(alpha)
    urns = _urns(calibration, alpha)
    if trouble is not None or not urns:
        why_not = trouble or _no_urn(calibration, alpha)
        return [Claim(name=about, why_not=why_not, **common)]
    return [Claim(name=about + _where(where), urn=urn, **common, **where) for where, urn in urns]
