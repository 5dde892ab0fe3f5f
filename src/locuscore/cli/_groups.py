"""Options that belong together: a parameter of a command may be a dataclass of options."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of its groups as options, as Typer wants them.

    An option that several groups have is given to each of them.
    """
    own = signature(command).parameters
    groups: dict[str, Any] = {
        name: part.annotation for name, part in own.items() if is_dataclass(part.annotation)
    }
    options: dict[str, Parameter] = {}
    for name, part in own.items():
        options |= signature(groups[name]).parameters if name in groups else {name: part}

    @wraps(command)
    def run(**given: Any) -> None:
        values = dict(given)
        for name, group in groups.items():
            values[name] = group(**{field.name: given[field.name] for field in fields(group)})
        command(**{name: values[name] for name in own})

    # Keywords, since an option that must be given may follow one with a default.
    parts = [part.replace(kind=Parameter.KEYWORD_ONLY) for part in options.values()]
    run.__signature__ = Signature(parts)  # type: ignore[attr-defined]  # what Typer reads
    return run
