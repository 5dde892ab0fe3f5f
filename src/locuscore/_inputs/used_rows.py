"""Rows used twice: digests of the rows of D1 and D2, and an exact test whether others are new.

New rows repeat rows of D1 as often as the rows of D2 do: given D1, both are draws from the same
distribution. So Fisher's exact test, which needs no known rate, compares the share of a batch found
in D1 with the share of D2 found there. In the same way it compares the share found in D2 with the
share of D1 found there, to recognise rows of D2. The two cannot be pooled: a search among more rows
finds more repeats, so the share found in D1 and D2 together must not be compared with D2's share in
D1. A row of `fit` that occurs several times counts once. That can only raise the p-value, so a
batch is not refused for repeating its own rows, and memory does not grow with a stream.
"""

import warnings
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal, Self

import numpy as np
from scipy.stats import hypergeom

from locuscore._inputs.cells import Cells, digests_with, row_digests
from locuscore._inputs.schema import Schema
from locuscore._protocols import BoolArray, IntArray, Rows
from locuscore._shared.checks import LocusWarning
from locuscore._shared.frames import n_rows
from locuscore._shared.kept import Kept
from locuscore._shared.rows import RowKind, kind_of_rows

Labels = Literal["y", "losses"]
SMALLEST_P = 1e-6  # below it, rows count as rows of fit
SALT_BYTES = 16
LOSS_TYPE = "float64"
HOW_TO_ALLOW = (
    "To go on with a rule that proves nothing, pass allow_rows_used_in_fit=True "
    "(--allow-rows-used-in-fit)."
)


@dataclass(frozen=True, eq=False, repr=False)
class RowSet:
    """Digests of the rows of D1 and of D2, ascending."""

    ARCHIVE = Kept("RowSet", fields=("model", "calibration"))

    model: Cells
    calibration: Cells

    def as_model(self) -> "RowSet":
        """All rows as rows of D1, where there was no D2."""
        return replace(self, model=np.sort(np.concatenate([self.model, self.calibration])))

    def with_calibration(self, digests: Cells, had_d2: bool) -> "RowSet":
        """The same D1, or all rows as D1 where there was no D2, and other calibration rows."""
        return replace(self if had_d2 else self.as_model(), calibration=np.sort(digests))

    def no_repeats(self) -> "Repeats":
        """Return a count of the rows of a batch found here, before any is seen."""
        first, second = self.model, self.calibration
        return Repeats((_PartRepeats.of(first, second), _PartRepeats.of(second, first)))


@dataclass(frozen=True, eq=False, repr=False)
class UsedRows:
    """Digests of the rows of `fit`: of X alone, and of X with its label.

    If `fit` was given y, `by_loss` are those of X with the loss: rows may come back with losses
    from a log. It is None if the labels are losses, and in old archives.

    The salt differs from fit to fit, so that digests of two archives cannot be compared; it is
    derived from the calibration, so that the same fit gives the same archive.
    """

    ARCHIVE = Kept(
        "UsedRows",
        fields=("inputs", "labelled", "salt", "by_loss"),
        single=("labels", "label_type"),
        later=("by_loss",),
        holds=(RowSet,),
    )

    inputs: RowSet
    labelled: RowSet
    labels: Labels
    label_type: str
    salt: bytes
    by_loss: RowSet | None = None

    @classmethod
    def of(
        cls,
        X: Rows,
        labels: np.ndarray,
        kind: Labels,
        parts: tuple[IntArray, IntArray],
        salt_of: np.ndarray,
        losses: np.ndarray | None = None,
    ) -> Self | None:
        """Digest the rows of `fit`; `parts` are the positions of D1 and D2.

        None for rows of the caller's own kind, which cannot be recognised.
        """
        if kind_of_rows(X) is RowKind.OWN:
            return None
        salt = blake2b(salt_of.tobytes(), digest_size=SALT_BYTES).digest()
        label_type = str(labels.dtype)
        given = [(labels, label_type)]
        if kind == "y" and losses is not None:
            given.append((losses, LOSS_TYPE))
        inputs, labelled, *by_loss = (
            RowSet(*(np.sort(found[part]) for part in parts))
            for found in digests_with(X, given, Schema.of(X).types, salt)
        )
        return cls(inputs, labelled, kind, label_type, salt, *by_loss)

    def recalibrated(
        self, X: Rows, labels: "RowLabels", schema: Schema, *, had_d2: bool
    ) -> "UsedRows":
        """Digests of the same D1 and of another D2, whose rows must not be clearly those of D1.

        If `fit` was given y and the new rows come with losses, all rows are known by their losses
        from here on; by X alone where an old archive has no digests of losses. Without a D2 until
        now, all rows of `fit` are D1 from here on.
        """
        kind, values = labels.as_in(self)
        reuse = Reuse(self, schema, kind).add(X, values)
        _check_not_of_model(reuse, 0)
        if not had_d2:
            _check_not_of_model(reuse, 1)
        given = [(values, self.label_type), (labels.losses, LOSS_TYPE)]
        found = digests_with(X, given[kind != self.labels :], schema.types, self.salt)
        inputs = self.inputs.with_calibration(found[0], had_d2)
        by_loss = None
        if self.by_loss is not None:
            by_loss = self.by_loss.with_calibration(found[-1], had_d2)
        if kind == self.labels:
            labelled = self.labelled.with_calibration(found[1], had_d2)
            return replace(self, inputs=inputs, labelled=labelled, by_loss=by_loss)
        if by_loss is None:
            known = self.labelled if had_d2 else self.labelled.as_model()
            return replace(self, inputs=inputs, labelled=known)
        return UsedRows(inputs, by_loss, "losses", LOSS_TYPE, self.salt)

    def __len__(self) -> int:
        return len(self.inputs.model) + len(self.inputs.calibration)


@dataclass(frozen=True, eq=False)
class RowLabels:
    """What rows come with: true values y if they are known, and their losses."""

    y: np.ndarray | None
    losses: np.ndarray

    def as_in(self, used: UsedRows) -> tuple[Labels, np.ndarray]:
        """Kind and values of the labels that the rows of `fit` are known by, if there are any."""
        if self.y is None or used.labels == "losses":
            return "losses", self.losses
        return "y", self.y


def look_up(used: UsedRows, schema: Schema, X: Rows, labels: RowLabels) -> "Verdict":
    """Whether these rows were used to fit."""
    kind, values = labels.as_in(used)
    return Reuse(used, schema, kind).add(X, values).verdict


def _check_not_of_model(reuse: "Reuse", part: int) -> None:
    """Raise where rows repeat those of D1 more often than D2 does; warn where their X alone do."""
    labelled, inputs = (
        None if found is None else found.parts[part] for found in (reuse.labelled, reuse.inputs)
    )
    if labelled is not None and labelled.p_value < SMALLEST_P:
        raise ValueError(
            f"these rows taught the loss model: {labelled.n_repeated:,} of them are rows of D1, "
            f"far more than new rows would repeat ({_p(labelled.p_value)}). Their tails are "
            "flattered, so they cannot calibrate; take rows that fit has not seen, or those of D2."
        )
    if inputs is not None and inputs.p_value < SMALLEST_P:
        warnings.warn(
            f"the inputs of {inputs.n_repeated:,} rows are inputs of D1 ({_p(inputs.p_value)}). "
            "They calibrate only if the loss model has not seen these rows.",
            LocusWarning,
            stacklevel=5,
        )


def check_fresh(verdict: "Verdict", allow: bool) -> None:
    """Raise if the certifying rows were used to fit, unless allowed; warn if they may have been."""
    if verdict.outcome == "used" and not allow:
        raise ValueError(f"{verdict.sentence} {HOW_TO_ALLOW}")
    if verdict.outcome != "fresh":
        warnings.warn(verdict.sentence, LocusWarning, stacklevel=4)


def check_reference(used: UsedRows | None, schema: Schema, reference: Rows | None) -> None:
    """Warn if reference rows are calibration rows, which certify; rows of D1 are allowed."""
    if used is None or reference is None:
        return
    found = Reuse(used, schema, None).add(reference, None).inputs.parts[1]
    if found.p_value < SMALLEST_P:
        warnings.warn(
            f"{found.n_repeated:,} reference rows are calibration rows, which certify here; "
            "thresholds must be chosen without the certifying rows. Pass other rows, or none.",
            LocusWarning,
            stacklevel=3,
        )


class Reuse:
    """Counts which rows of a stream are rows of `fit`, and says whether they were used to fit.

    Parameters
    ----------
    used
        `Locus.used_rows_`: digests of the rows of `fit`.
    schema
        `Scorer.schema`, or `Locus.schema_`.
    labels
        What the rows come with: ``"y"``, ``"losses"``, or None for unlabelled rows.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus, Reuse
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> locus = Locus(lambda X: X[:, 0], random_state=0).fit(X, X[:, 1])
    >>> Reuse(locus.used_rows_, locus.schema_, "y").add(X, X[:, 1]).verdict.outcome
    'used'
    """

    def __init__(self, used: UsedRows, schema: Schema, labels: Labels | None) -> None:
        self.used = used
        is_alike = labels == used.labels
        known = used.labelled if is_alike else used.by_loss if labels == "losses" else None
        self._types = (*schema.types, used.label_type if is_alike else LOSS_TYPE)
        self.inputs = used.inputs.no_repeats()
        self.labelled = None if known is None else known.no_repeats()

    def __repr__(self) -> str:
        found = self.verdict
        return f"Reuse({found.n_found:,} of {found.n:,} rows were in fit: {found.outcome})"

    def add(self, X: Rows, labels: np.ndarray | None) -> Self:
        """Add rows, with their labels if these are of the kind that `fit` had."""
        if n_rows(X):
            known = labels if self.labelled is not None else None
            inputs, labelled = row_digests(X, known, self._types, self.used.salt)
            self.inputs.add(inputs)
            if self.labelled is not None:
                self.labelled.add(labelled)
        return self

    @property
    def verdict(self) -> "Verdict":
        """The verdict on the rows added so far."""
        first = self.inputs if self.labelled is None else self.labelled
        is_used = self.labelled is not None and self.labelled.p_value < SMALLEST_P
        is_suspect = not is_used and self.inputs.p_value < SMALLEST_P
        return Verdict(
            n=first.n,
            n_found=(self.inputs if is_suspect else first).n_found,
            with_labels=self.labelled is not None,
            usual_share=first.usual_share,
            p_value=(self.inputs if is_suspect else first).p_value,
            outcome="used" if is_used else "suspect" if is_suspect else "fresh",
        )


@dataclass(frozen=True)
class Verdict:
    """How many of the rows are rows of `fit`, and what follows.

    ``"used"``: more rows, X and label, repeat those of `fit` than chance explains. ``"suspect"``:
    only their X does; the labels differ or are not known. ``"fresh"``: no more repeats than between
    D1 and D2.
    """

    n: int
    n_found: int
    with_labels: bool
    usual_share: float
    p_value: float
    outcome: Literal["used", "suspect", "fresh"]

    @property
    def sentence(self) -> str:
        """The finding in words."""
        share = f"{self.n_found:,} of {self.n:,}"
        if self.outcome == "used":
            return (
                f"these rows were used to fit: {share} are rows of fit, where new rows would "
                f"repeat about {self.usual_share:.1%} of them ({_p(self.p_value)}). They cannot "
                "certify or judge what was learned from them; take rows that fit has not seen."
            )
        if self.outcome == "suspect":
            labels = "labels are others" if self.with_labels else "labels are not known"
            return (
                f"these rows were probably used to fit: the inputs of {share} are inputs of fit, "
                f"though their {labels} ({_p(self.p_value)}). What they show holds only if their "
                "labels had no part in fit."
            )
        return f"{share} rows repeat a row of fit, no more than new rows may."


@dataclass(eq=False, repr=False)
class _PartRepeats:
    """Rows of a batch found in one part of the rows of `fit`, compared with the other part's."""

    known: Cells  # distinct digests of this part, ascending
    usual: int  # rows of the other part found in this one, of `n_usual`
    n_usual: int
    is_repeated: BoolArray  # for each of `known`, whether the batch has it
    n_new: int = 0  # rows of the batch that are not in this part

    @classmethod
    def of(cls, part: Cells, other: Cells) -> "_PartRepeats":
        known = np.unique(part)
        usual = int(np.isin(other, known).sum())
        return cls(known, usual, len(other), np.zeros(len(known), dtype=bool))

    def add(self, digests: Cells) -> BoolArray:
        at = np.minimum(np.searchsorted(self.known, digests), len(self.known) - 1)
        is_known: BoolArray = self.known[at] == digests
        self.is_repeated[at[is_known]] = True
        self.n_new += int(np.sum(~is_known))
        return is_known

    @property
    def n_repeated(self) -> int:
        """Distinct rows of this part that the batch has."""
        return int(self.is_repeated.sum())

    @property
    def p_value(self) -> float:
        """How likely so many repeats are if rows of the batch and of the other part are alike."""
        n = self.n_repeated + self.n_new
        return fisher_p_value(self.n_repeated, n, self.usual, self.n_usual)


@dataclass(eq=False, repr=False)
class Repeats:
    """Counts of the rows of a batch that are rows of D1, of D2, or of either."""

    parts: tuple[_PartRepeats, _PartRepeats]
    n: int = 0
    n_found: int = 0

    def add(self, digests: Cells) -> None:
        """See further rows."""
        first, second = (part.add(digests) for part in self.parts)
        self.n += len(digests)
        self.n_found += int(np.sum(first | second))

    @property
    def usual_share(self) -> float:
        """Share of D2's rows that D1 holds."""
        return self.parts[0].usual / self.parts[0].n_usual

    @property
    def p_value(self) -> float:
        """P-value of the two tests together, by Bonferroni."""
        return min(1.0, 2 * min(part.p_value for part in self.parts))


def fisher_p_value(found: int, n: int, usual: int, n_usual: int) -> float:
    """P-value of Fisher's exact test of ``found / n`` being no more than ``usual / n_usual``."""
    return float(hypergeom.sf(found - 1, n + n_usual, found + usual, n))


def _p(value: float) -> str:
    return f"p < {SMALLEST_P:g}" if value < SMALLEST_P else f"p = {value:.2g}"
