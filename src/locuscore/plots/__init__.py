"""Pictures of bounds, losses and rules: functions of arrays that take an Axes and return it.

Without `ax` a new figure is made through pyplot, so that ``plt.show()`` and ``plt.savefig`` find
it; with `ax` pyplot is not touched. `unit` is the unit of the loss, such as ``"dollars"``, and is
used in the labels. Arrays follow `locuscore.metrics`: missing values, empty arrays and arrays of
different lengths are refused, losses are finite, and infinite bounds are drawn and counted.
Needs matplotlib: ``pip install 'locuscore[plot]'``.
"""

from locuscore.plots._bounds import bound_against_loss, bound_distribution, reasons
from locuscore.plots._coverage import coverage_by_bound, coverage_by_group, pit_histogram
from locuscore.plots._inputs import fit_panel, gamma_map, loss_panel, rule_panel, spread_panel
from locuscore.plots._operating import exceedance_curves, operating_by_tau, operating_by_threshold

__all__ = [
    "bound_against_loss",
    "bound_distribution",
    "coverage_by_bound",
    "coverage_by_group",
    "exceedance_curves",
    "fit_panel",
    "gamma_map",
    "loss_panel",
    "operating_by_tau",
    "operating_by_threshold",
    "pit_histogram",
    "reasons",
    "rule_panel",
    "spread_panel",
]
