"""Several claims that a fitted Locus certifies together on its calibration rows."""

from collections.abc import Sequence
from typing import Any

from sklearn.utils.validation import check_is_fitted

from locuscore._laws.scores import Score, check_score
from locuscore._row_rules import RowRules
from locuscore._rules.claims import Claim, ExceedanceClaim, certify_claims
from locuscore._rules.rule import FlagRule


class RowClaims(RowRules):
    """The method of `Locus` that certifies several claims at once."""

    def certify_claims(
        self, claims: Sequence[Claim], delta: float, *, of: Score | None = None, by: Any = None
    ) -> tuple[FlagRule, ...]:
        """Certify a threshold for each claim on the calibration rows, all with one delta.

        With confidence ``1 - delta`` every rule meets its claim. The score is the raw tail at one
        tau, a function of D1 alone, and thresholds are tails of rows of D1; what breaks the
        guarantee of `certify` breaks this one. Claims must not be chosen by D2's losses. For fresh
        rows or another score see `locuscore.certify_claims`.

        Parameters
        ----------
        claims, delta
            As in `locuscore.certify_claims`.
        of
            The score of all rules, ``Score.tail(tau)``; by default at the tau of the first
            `ExceedanceClaim`.
        by
            Groups of the rows, as in `certify_groups`; needed where a claim names a group.

        Returns
        -------
        tuple of FlagRule
            In the order of the claims.
        """
        check_is_fitted(self)
        score = _score_of(claims) if of is None else check_score(of)
        rows = self._held_out(score)
        if self.calibration_.certifies_by != "rows":
            raise ValueError(
                "certify_claims takes rows as independent draws from the population of new rows, "
                "and the calibration rows of this Locus have clusters or weights; pass the scores "
                "and losses of rows that are to locuscore.certify_claims."
            )
        if rows.known is None:
            raise ValueError(
                "this Locus was loaded and has no rows of D1, from which thresholds are taken; "
                "pass scores, losses and a reference to locuscore.certify_claims."
            )
        rules = certify_claims(
            rows.score,
            rows.losses,
            claims,
            delta,
            reference=rows.known,
            groups=None if by is None else self._calibration_labels(by),
            of=score,
        )
        return tuple(map(self._made_here, rules))


def _score_of(claims: Sequence[Claim]) -> Score:
    """The tail at the tau of the first claim that has one."""
    for claim in claims:
        if isinstance(claim, ExceedanceClaim):
            return Score.tail(claim.tau)
    raise ValueError(
        "no claim names a tau, so there is no tail to take as the score; pass of=Score.tail(tau)."
    )
