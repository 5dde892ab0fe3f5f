"""What the rows of D1 say about certificates before D2 is looked at."""

from sklearn.utils.validation import check_is_fitted

from locuscore._laws.scores import Score
from locuscore._laws.signed_errors import SignedErrors
from locuscore._protocols import FloatArray
from locuscore._row_scores import RowScores
from locuscore._rules.certificate_plan import CertificatePlan, plan_on
from locuscore._rules.certify import claim_on
from locuscore._rules.planned_starts import Pilot
from locuscore._shared.checks import one_tau

# What a fit with a D2 keeps of its rows, besides those that tell a predictor or fresh rows.
ROWS_OF_PARTS = (
    *("fit_signals_", "fit_losses_", "fit_errors_"),
    *("calibration_signals_", "calibration_losses_"),
    *("calibration_inputs_", "calibration_clusters_"),
)


class RowPlans(RowScores):
    """The methods of `Locus` that plan a certificate."""

    fit_signals_: FloatArray
    fit_losses_: FloatArray
    fit_errors_: SignedErrors | None
    reference_signals_: FloatArray

    def plan_certificate(
        self,
        tau: float,
        eta: float,
        delta: float,
        *,
        rows: int | None = None,
        acceptance: float | None = None,
    ) -> CertificatePlan:
        """Simulate what `certify` accepts on so many rows of D2, or find how many it needs.

        The pilot is D1, whose rows have tails without their own losses. `rows` and `acceptance`
        are those of `locuscore.plan_certificate`.
        """
        check_is_fitted(self)
        if self.calibration_.certifies_by != "rows":
            raise ValueError("this plan is for independent rows, without clusters and weights.")
        score = Score.tail(one_tau(tau))
        pairs = self._left_out(score)
        if pairs is None:
            raise ValueError(
                "this Locus has no rows of D1 to plan on, since it was loaded or has no D2; pass "
                "the scores and losses of labelled rows to locuscore.plan_certificate."
            )
        known = score.before_calibration(self.loss_model_, self.reference_signals_)
        claim = claim_on(*pairs, tau, eta, delta)[2]
        pilot = Pilot.of(pairs[0], pairs[1] > claim.tau).with_ties_of(known)
        return plan_on(pilot, claim, rows, acceptance)

    def _left_out(self, score: Score) -> tuple[FloatArray, FloatArray] | None:
        """Scores of rows of D1 without their own losses, and these; None without rows of D1."""
        if not hasattr(self, "fit_losses_") or score.tau is None:
            return None
        from locuscore.engines._left_out import left_out_tails  # noqa: PLC0415 - when first used

        rows = self.fit_signals_, self.fit_losses_, self.fit_errors_
        tails, z = left_out_tails(self.loss_model_, *rows, score.tau)
        return (tails, z) if len(z) else None
