"""GroupRule: a rule for each group, deployed as one; and what every kind of rule is checked by."""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from numbers import Integral
from types import MappingProxyType
from typing import Any, Self, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.scores import Score
from locuscore._protocols import BoolArray, IntArray, Rows
from locuscore._rules.card import group_card, group_card_html, listed, rule_text
from locuscore._rules.cascade_rule import CascadeRule
from locuscore._rules.certificate import ExceedanceCertificate, GroupCertificate
from locuscore._rules.rule import FlagRule, Standing, check_calibration, made_with
from locuscore._shared.accepted import is_accepted
from locuscore._shared.checks import check_same_order, is_missing
from locuscore._shared.frames import column
from locuscore._shared.labels import read_labels
from locuscore._shared.optional import require
from locuscore._shared.readable import as_typed
from locuscore._shared.shown import cut

PARTS = ("by", "groups", "rules")
WEAKEST_FIRST: tuple[Standing, ...] = ("heuristic", "certificate", "theorem")


@dataclass(frozen=True, eq=False, repr=False)
class GroupRule(Mapping[Hashable, FlagRule]):
    """Accept a row when its score is at most the threshold of the row's group.

    A mapping from each group's label to its `FlagRule`; groups that are pooled have the same one.
    A row of any other group, or of none, is not accepted. `certify_groups` makes it, with ``P(Z >
    tau | accepted, group) <= eta`` in all groups at once.

    Parameters
    ----------
    rules
        A rule for each label, all on the same score.
    by
        Name of the column that holds a row's group, or its position in an array. None if only the
        caller knows the groups: they are then passed with the rows, as ``groups=``.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_groups
    >>> score = np.tile(np.arange(100) / 100, 2)
    >>> group = np.repeat(["north", "south"], 100)
    >>> bad = score > np.where(group == "north", 0.9, 0.6)
    >>> rule = certify_groups(score, bad, group, tau=0.5, eta=0.1, delta=0.1)
    >>> rule.accepts([0.7, 0.7, 0.7], groups=["north", "south", "west"]).tolist()
    [True, False, False]
    """

    rules: Mapping[Hashable, FlagRule]
    by: str | int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.rules, Mapping) or not self.rules:
            raise TypeError(f"rules must map at least one group to its rule; got {self.rules!r}.")
        for label, rule in self.rules.items():
            if is_missing(label):
                raise ValueError("the label of a group must not be missing.")
            if not isinstance(rule, FlagRule):
                raise TypeError(f"the rule of group {label!r} must be a FlagRule; got {rule!r}.")
        scores = {rule.score for rule in self.rules.values()}
        if len(scores) > 1:
            raise ValueError(
                "the rules of all groups must threshold the same score; got "
                f"{' and '.join(sorted(map(str, scores)))}."
            )
        rules = {_python(label): rule for label, rule in self.rules.items()}
        object.__setattr__(self, "rules", MappingProxyType(rules))
        object.__setattr__(self, "by", check_by(self.by))

    def __getitem__(self, label: Hashable) -> FlagRule:
        return self.rules[label]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GroupRule):
            return NotImplemented
        return self.by == other.by and dict(self.rules) == dict(other.rules)

    def __hash__(self) -> int:
        return hash((self.by, *self.rules))

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only mappings can be neither pickled nor copied.
        return type(self), (dict(self.rules), self.by)

    @property
    def units(self) -> list[tuple[list[Hashable], FlagRule]]:
        """Each distinct rule with the groups that share it: one group, or a pool."""
        found: dict[int, tuple[list[Hashable], FlagRule]] = {}
        for label, rule in self.rules.items():
            found.setdefault(id(rule), ([], rule))[0].append(label)
        return list(found.values())

    @property
    def score(self) -> Score:
        """The score that all of the rules threshold."""
        return next(iter(self.rules.values())).score

    @property
    def unit(self) -> str:
        """The unit of the losses, as the first rule has it."""
        return next(iter(self.rules.values())).unit

    @property
    def valid_until(self) -> str:
        """The first day after which one of the rules is to be made again; empty if none is."""
        return min(
            (rule.valid_until for rule in self.rules.values() if rule.valid_until), default=""
        )

    def until(self, day: str | date) -> "GroupRule":
        """The same rule, to be used up to this day and made again on fresh rows afterwards."""
        return with_each_rule(self, lambda part: part.until(day))

    @property
    def standing(self) -> Standing:
        """The weakest standing among the rules."""
        found = {rule.standing for rule in self.rules.values()}
        return next(standing for standing in WEAKEST_FIRST if standing in found)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What any of the rules assumes, each named once."""
        return tuple(dict.fromkeys(a for rule in self.rules.values() for a in rule.assumptions))

    @property
    def guarantee(self) -> str:
        """What is guaranteed in all groups together, and in which groups nothing is."""
        return f"{_promise(self)} {nothing_certified(self)}A row of any other group is flagged."

    @property
    def accepts_nothing(self) -> bool:
        """Whether no row of any group can be accepted."""
        return all(rule.accepts_nothing for rule in self.rules.values())

    @property
    def asks(self) -> str | None:
        """Keyword that must be passed with new rows: ``groups`` without a column, else None."""
        return "groups" if self.by is None else None

    @property
    def table(self) -> Mapping[str, tuple[Any, ...]]:
        """Each group with its threshold, and its certifying rows: all, accepted, bad."""
        names = ("n_rows", "n_accepted", "n_bad")
        seen = [(rule, _claim(rule)) for rule in self.rules.values()]
        rows = {name: tuple(getattr(claim, name, None) for _, claim in seen) for name in names}
        thresholds = tuple(rule.threshold for rule in self.rules.values())
        return MappingProxyType({"group": tuple(self.rules), "threshold": thresholds, **rows})

    def labels(self, X: Rows, groups: Any = None) -> Any:
        """One label per row: those of the column `by`, or else those that are passed."""
        if self.by is not None:
            return column(X, self.by)
        if groups is None:
            raise ValueError(
                "the rule has a threshold for each group and no column that tells them; pass "
                "groups=, one label per row, or name the column when the rule is made: by=."
            )
        check_same_order(X=X, groups=groups)
        return groups

    def places(self, groups: Any, n: int) -> IntArray:
        """Position of each row's rule in `units`; their number for a row of no known group."""
        known = {label: i for i, (labels, _) in enumerate(self.units) for label in labels}
        rest = len(self.units)
        labels = read_labels(groups, n)
        try:
            return np.fromiter((known.get(label, rest) for label in labels), np.int64, n)
        except TypeError:
            raise TypeError(
                "groups must hold one hashable label per row, such as text, a number or a tuple; "
                f"got {labels[0]!r}."
            ) from None

    def accepts(self, values: ArrayLike, of: Score | None = None, groups: Any = None) -> BoolArray:
        """Whether each row is accepted, given its score and the label of its group.

        `of` says which score the values are, and must agree, as in `FlagRule.accepts`.
        """
        first = next(iter(self.rules.values()))
        scores = np.atleast_1d(first.checked(values, of))
        if groups is None:
            raise ValueError("this rule has a threshold for each group; pass groups= as well.")
        thresholds = np.array([rule.threshold for _, rule in self.units] + [-np.inf])
        return is_accepted(scores, thresholds[self.places(groups, len(scores))])

    def __str__(self) -> str:
        return group_card(self)

    def __repr__(self) -> str:
        by = "passed with the rows" if self.by is None else f"by {cut(repr(self.by), 40)}"
        accepts = f"{self.score} <= threshold of the group, {len(self)} groups {by}"
        return rule_text(self, accepts, {})

    def _repr_html_(self) -> str:
        return group_card_html(self)

    def to_frame(self) -> Any:
        """One row per group, as `table` has them, as a pandas frame."""
        return require("pandas", extra="demo").DataFrame(dict(self.table))

    def to_dict(self) -> dict[str, Any]:
        """The rule in the types JSON has, which must have the types of the labels too."""
        units = self.units
        place = {id(rule): i for i, (_, rule) in enumerate(units)}
        groups = [[_plain(label), place[id(rule)]] for label, rule in self.rules.items()]
        return {"by": self.by, "groups": groups, "rules": [rule.to_dict() for _, rule in units]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The rule that `to_dict` described."""
        if not isinstance(data, Mapping) or set(data) != set(PARTS):
            raise ValueError(f"a rule by group is described by {PARTS}; got {data!r:.200}.")
        groups, rules = data["groups"], data["rules"]
        if not isinstance(rules, list) or not isinstance(groups, list):
            raise ValueError("a rule by group has a list of groups and a list of rules.")
        made = [FlagRule.from_dict(part) for part in rules]
        found: dict[Hashable, FlagRule] = {}
        for entry in groups:
            match entry:
                case [label, int(i)] if type(i) is int and 0 <= i < len(made):
                    found[_plain(label)] = made[i]
                case _:
                    raise ValueError(f"a group is a label and the position of its rule: {entry!r}.")
        if len(found) < len(groups) or len({id(rule) for rule in found.values()}) < len(made):
            raise ValueError("each group is named once, and each rule belongs to a group.")
        return cls(found, data["by"])


Rule: TypeAlias = FlagRule | GroupRule
AnyRule = TypeVar("AnyRule", FlagRule, GroupRule)


def check_rule(rule: Any) -> Rule:
    """Return a rule; a threshold alone does not say which score it belongs to."""
    if isinstance(rule, CascadeRule):
        raise TypeError(
            "a CascadeRule reads the scores of several models, so no single Locus, Scorer or "
            "archive holds it; ask it with rule.choose(scores), and keep it as JSON: "
            "json.dumps(rule.to_dict()), read by CascadeRule.from_dict."
        )
    if not isinstance(rule, FlagRule | GroupRule):
        raise TypeError(
            "rule must be a FlagRule, such as locus.certify(tau, eta, delta) or "
            "locus.tau_rule(tau, alpha) returns, or the GroupRule of certify_groups; got "
            f"{type(rule).__name__}."
        )
    return rule


def rule_from_dict(data: Mapping[str, Any]) -> Rule:
    """The rule of either kind that its `to_dict` described."""
    is_by_group = isinstance(data, Mapping) and "rules" in data
    return GroupRule.from_dict(data) if is_by_group else FlagRule.from_dict(data)


def check_by(by: Any) -> str | int | None:
    """Return the column that tells groups: a name, a position, or None."""
    if by is None or isinstance(by, str):
        return by
    if isinstance(by, Integral) and not isinstance(by, bool):
        return int(by)
    raise TypeError(
        "by must be the name of a column, or its position in an array, or None if groups are "
        f"passed with the rows; got {by!r}."
    )


def check_same_calibration(rule: Rule, calibration: str | None) -> None:
    """Raise if a rule of either kind was made with another calibration than the one that scores."""
    for part in [rule] if isinstance(rule, FlagRule) else rule.values():
        check_calibration(part, calibration)


def kept_with(rule: Rule, calibration: str | None) -> Rule:
    """A rule of either kind from an archive, with the digest of the calibration beside it.

    Earlier versions kept none, and the rule would pass with any other calibration.
    """

    def told(part: FlagRule) -> FlagRule:
        return part if "calibration" in part.evidence else made_with(part, calibration, part.unit)

    return with_each_rule(rule, told)


@overload
def with_each_rule(rule: FlagRule, change: Callable[[FlagRule], FlagRule]) -> FlagRule: ...
@overload
def with_each_rule(rule: GroupRule, change: Callable[[FlagRule], FlagRule]) -> GroupRule: ...
def with_each_rule(rule: Rule, change: Callable[[FlagRule], FlagRule]) -> Rule:
    """The rule with a change: of itself, or of each rule that its groups have."""
    if isinstance(rule, FlagRule):
        return change(rule)
    made = {id(part): change(part) for _, part in rule.units}
    return replace(rule, rules={label: made[id(part)] for label, part in rule.items()})


def in_unit(rule: Rule, unit: str) -> Rule:
    """The rule in the unit of its losses; one that has a unit keeps it."""
    if not unit or rule.unit:
        return rule
    return with_each_rule(rule, lambda part: replace(part, unit=unit))


def _claim(rule: FlagRule) -> Any:
    """The numbers of a rule's certificate; within its group, if it is for one."""
    found = rule.certificate
    return found.within if isinstance(found, GroupCertificate) else found


def _promise(rule: GroupRule) -> str:
    """One sentence for all groups where their certificates make the same claim."""
    units, shared = rule.units, {part.guarantee for part in rule.values()}
    claims = [_claim(part) for _, part in units]
    is_same = (
        all(
            isinstance(part.certificate, GroupCertificate) and part.standing == "certificate"
            for _, part in units
        )
        and len({(claim.tau, claim.eta) for claim in claims}) == 1
    )
    if not is_same:
        own = "In each group, the guarantee is that of its own rule."
        return shared.pop() if len(shared) == 1 else own
    claim: ExceedanceCertificate = claims[0]
    # A group that was too small for any test has spent nothing; the others add up.
    delta = math.fsum(claim.delta for claim in claims if claim.thresholds is not None)
    if not delta:
        share = f"P(loss > {as_typed(claim.tau)} | accepted, group)"
        return f"No group has enough rows to certify {share}."
    n = sum(claim.n_rows or 0 for claim in claims)
    pools = [labels for labels, _ in units if len(labels) > 1]
    mixed = "".join(
        f" For the pool of {listed(labels)} it holds for their mixture, not for each of them."
        for labels in pools
    )
    return (
        f"P(loss > {as_typed(claim.tau)} | accepted, group) <= {claim.eta:g} for a new row, in all "
        f"groups at once with confidence {1 - delta:g}: over the draw of the {n} certifying rows, "
        f"the probability that this fails in any group is at most {delta:g}.{mixed}"
    )


def nothing_certified(rule: GroupRule) -> str:
    """Names the groups in which nothing is accepted, with their rows; empty if there are none."""
    empty = [label for label, part in rule.items() if part.accepts_nothing]
    if not empty:
        return ""
    notes = [_rows_note(rule[label]) for label in empty]
    return f"Nothing is certified, and so nothing is accepted, in {listed(empty, notes)}. "


def _rows_note(rule: FlagRule) -> str:
    claim = _claim(rule)
    n = getattr(claim, "n_rows", None)
    needed = getattr(claim, "accepted_rows_needed_without_a_bad_one", None)
    if n is None or needed is None:
        return ""
    return f" ({n} rows, at least {needed} needed)" if n < needed else f" ({n} rows)"


def _python(label: Any) -> Any:
    """A number or text of numpy as Python's own, so that it reads and keeps like one."""
    is_simple = isinstance(label, np.generic) and label.dtype.kind in "biufU"
    return label.item() if is_simple else label


def _plain(label: Any) -> Any:
    """A label in the types that JSON has."""
    is_number = isinstance(label, bool | int) or (isinstance(label, float) and math.isfinite(label))
    if is_number or isinstance(label, str):
        return label
    raise ValueError(
        f"the group {label!r} is a {type(label).__name__}, which a file cannot hold; name groups "
        "by text or numbers to save their rule."
    )


def unit_name(labels: Sequence[Hashable]) -> str:
    """How the groups that share a rule are called in a sentence."""
    return f"group {labels[0]!r}" if len(labels) == 1 else f"the pool of {listed(labels)}"
