"""``locuscore plan``: how many labelled rows are needed."""

from typing import Annotated

import typer

from locuscore import RowPlan, rows_for_bound, rows_for_certificate, rows_for_coverage
from locuscore.cli._messages import reported
from locuscore.cli._options import Debug, Json, Quiet, option
from locuscore.cli._terminal import Terminal

plan = typer.Typer(
    no_args_is_help=True,
    help="How many labelled rows are needed; exact, not asymptotic.",
    rich_markup_mode="rich",
)

EXAMPLE = "[bold]Example[/]\n\nlocuscore plan"
Alpha = Annotated[float, option("--alpha", text="Share of losses that may exceed their bound.")]


@plan.command(epilog=f"{EXAMPLE} bound --alpha 0.01")
@reported
def bound(
    alpha: Alpha = 0.1, as_json: Json = False, quiet: Quiet = False, debug: Debug = False
) -> None:
    """Calibration rows for a finite bound."""
    _show(Terminal(as_json, quiet), rows_for_bound(alpha))


@plan.command(epilog=f"{EXAMPLE} coverage --alpha 0.1 --within 0.01")
@reported
def coverage(
    within: Annotated[float, option("--within", text="Largest distance from 1 - alpha.")],
    alpha: Alpha = 0.1,
    delta: Annotated[float, option("--delta", text="Chance of a larger distance.")] = 0.05,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Calibration rows for a coverage close to 1 - alpha."""
    _show(Terminal(as_json, quiet), rows_for_coverage(alpha, within, delta))


@plan.command(epilog=f"{EXAMPLE} certificate --eta 0.1 --bad-rate 0.05 --acceptance 0.7")
@reported
def certificate(
    eta: Annotated[float, option("--eta", text="Share of bad rows allowed among the accepted.")],
    bad_rate: Annotated[float, option("--bad-rate", text="Share you expect among the accepted.")],
    acceptance: Annotated[float, option("--acceptance", text="Share of rows to accept.")],
    delta: Annotated[float, option("--delta", text="Chance that the certificate is wrong.")] = 0.1,
    power: Annotated[float, option("--power", text="Chance of getting the certificate.")] = 0.8,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Labelled rows for a certificate."""
    made = rows_for_certificate(eta, delta, bad_rate, acceptance, power)
    _show(Terminal(as_json, quiet), made)


def _show(terminal: Terminal, made: RowPlan) -> None:
    figures = {"rows": made.rows, "goal": made.goal, "checked_up_to": made.checked_up_to}
    terminal.show(figures, lambda console: console.print(str(made), markup=False))
