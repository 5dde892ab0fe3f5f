"""What the rows of D1 say about certificates before D2 is looked at."""

from locuscore._laws.scores import Score
from locuscore._laws.signed_errors import SignedErrors
from locuscore._protocols import FloatArray
from locuscore._row_scores import RowScores
from locuscore.engines._left_out import left_out_tails

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

    def _left_out(self, score: Score) -> tuple[FloatArray, FloatArray] | None:
        """Scores of rows of D1 without their own losses, and these; None without rows of D1."""
        if not hasattr(self, "fit_losses_") or score.tau is None:
            return None
        rows = self.fit_signals_, self.fit_losses_, self.fit_errors_
        tails, z = left_out_tails(self.loss_model_, *rows, score.tau)
        return (tails, z) if len(z) else None
