"""``locuscore plan``: how many labelled rows are needed."""

from typing import Annotated

import typer

from locuscore import RowPlan, rows_for_bound, rows_for_certificate, rows_for_coverage
from locuscore.cli._messages import reported
from locuscore.cli._options import option
from locuscore.cli._terminal import Terminal

plan = typer.Typer(
    no_args_is_help=True,
    help="How many labelled rows are needed; exact, not asymptotic.",
    rich_markup_mode="rich",
    add_completion=False,
)

EXAMPLE = "[bold]Example[/]\n\nlocuscore plan"
Alpha = Annotated[float, option("--alpha", "X", "Share of losses that may exceed their bound.")]


@plan.command(epilog=f"{EXAMPLE} bound --alpha 0.01")
@reported
def bound(*, alpha: Alpha = 0.1, terminal: Terminal) -> None:
    """Calibration rows for a finite bound."""
    _show(terminal, rows_for_bound(alpha))


@plan.command(epilog=f"{EXAMPLE} coverage --alpha 0.1 --within 0.01")
@reported
def coverage(
    *,
    within: Annotated[float, option("--within", "X", "Largest distance from 1 - alpha.")],
    alpha: Alpha = 0.1,
    delta: Annotated[float, option("--delta", "X", "Chance of a larger distance.")] = 0.05,
    terminal: Terminal,
) -> None:
    """Calibration rows for a coverage close to 1 - alpha."""
    _show(terminal, rows_for_coverage(alpha, within, delta))


@plan.command(epilog=f"{EXAMPLE} certificate --eta 0.1 --bad-rate 0.05 --acceptance 0.7")
@reported
def certificate(
    *,
    eta: Annotated[float, option("--eta", "X", "Share of bad rows allowed among the accepted.")],
    bad_rate: Annotated[float, option("--bad-rate", "X", "Share you expect among the accepted.")],
    acceptance: Annotated[float, option("--acceptance", "X", "Share of rows to accept.")],
    delta: Annotated[float, option("--delta", "X", "Chance that the certificate is wrong.")] = 0.1,
    power: Annotated[float, option("--power", "X", "Chance of getting the certificate.")] = 0.8,
    terminal: Terminal,
) -> None:
    """Labelled rows for a certificate."""
    _show(terminal, rows_for_certificate(eta, delta, bad_rate, acceptance, power))


def _show(terminal: Terminal, made: RowPlan) -> None:
    figures = {"rows": made.rows, "goal": made.goal, "checked_up_to": made.checked_up_to}
    terminal.show(figures, lambda console: console.print(str(made), markup=False))
