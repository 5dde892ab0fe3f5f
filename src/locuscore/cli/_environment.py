"""Variables of the environment that stand for options; a misspelt or empty one is refused.

Ignoring one would be worse than stopping: without LOCUSCORE_KEY_FILE, say, archives that nobody
signed are loaded.
"""

import difflib
import os
from typing import Any

import typer

# Keys never stand on a command line, where everybody on the machine can read them.
API_KEY = "LOCUSCORE_API_KEY"
LABELS_KEY = "LOCUSCORE_LABELS_KEY"
WATCH_KEY = "LOCUSCORE_WATCH_KEY"
SECRETS = (API_KEY, LABELS_KEY, WATCH_KEY)
# Names that others set with the same prefix, such as Kubernetes for a service called locuscore
# (LOCUSCORE_SERVICE_HOST), are below; MAX_ROW, TIMEOUT and TLS_CERT are above.
SIMILAR = 0.63


def name_variables(command: Any, prefix: str) -> None:
    """Let each option also be the variable that its name says, such as ``LOCUSCORE_MAX_ROWS``."""
    for part in command.params:
        if part.param_type_name == "option" and part.name != "help":
            longest = max(part.opts, key=len)
            part.envvar = f"{prefix}_{longest.strip('-').replace('-', '_').upper()}"


def check_variables(command: Any, prefix: str) -> None:
    """Refuse a variable that is empty, or close to one that there is without being it."""
    known = {*SECRETS, *(part.envvar for part in command.params if part.envvar)}
    endings = [name.removeprefix(f"{prefix}_") for name in sorted(known)]
    for name, value in os.environ.items():
        ending = name.removeprefix(f"{prefix}_")
        if ending == name:
            continue
        if name in known:
            if not value.strip():
                raise typer.BadParameter(f"{name} is empty; give it a value, or unset it.")
            continue
        nearest = difflib.get_close_matches(ending.upper(), endings, 1, SIMILAR)
        if nearest:
            raise typer.BadParameter(
                f"{name} means nothing here; did you mean {prefix}_{nearest[0]}? "
                "Rename it, or unset it."
            )
