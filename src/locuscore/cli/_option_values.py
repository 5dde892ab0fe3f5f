"""What the options of a command mean: a loss, an engine, a predictor, a file to write."""

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from locuscore import (
    LocusWarning,
    Scorer,
    cost_per_unit,
    engines,
    inspect_archive,
    load_predictor,
    pinball,
)
from locuscore._shared.checks import check_key
from locuscore.cli import _options as options
from locuscore.cli._options import LOSSES, NAMED_LOSSES


def chosen_loss(text: str | None) -> Any:
    """Return the loss that a text names; None for the default."""
    if text is None or text in NAMED_LOSSES:
        return text
    try:
        if text.startswith("pinball:"):
            return pinball(float(text.removeprefix("pinball:")))
        if text.startswith("cost_per_unit:"):
            costs = text.removeprefix("cost_per_unit:").split(",")
            if len(costs) != 2:
                raise ValueError(f"cost_per_unit:OVER,UNDER has two costs; got {text!r}.")
            return cost_per_unit(float(costs[0]), float(costs[1]))
        if ":" not in text:
            raise ValueError(f"unknown loss {text!r}; expected one of {', '.join(LOSSES)}.")
        loss = imported_object(text)
        if not callable(loss):
            raise TypeError(f"{text} is no function (y_true, y_pred) -> z; got {loss!r}.")
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error), param_hint="--loss") from None
    return loss


def chosen_engine(text: str) -> Any:
    """Return the engine that a text names, in capitals or not."""
    try:
        engine = engines.resolve_engine(text)
        if type(engine).__name__ not in engines.KEPT:
            raise ValueError(f"engine {text!r} cannot be kept in an archive; use it from Python.")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--engine") from None
    return engine


def imported_object(place: str) -> Any:
    """Return what ``module:object`` names; modules are also looked for in the current folder."""
    module, _, names = place.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        # Last, so that no file of the folder stands in for a package that is installed.
        sys.path.append(folder)
    try:
        value = import_module(module)
        for name in names.split("."):
            value = getattr(value, name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".", maxsplit=1)[0]:
            raise
        raise ValueError(f"{place}: there is no module {error.name}.") from None
    except AttributeError as error:
        raise ValueError(f"{place}: {error}.") from None
    return value


def chosen_key(path: Path | None) -> bytes | None:
    """Return the key in a file, or None; a bad key is refused before any work is done."""
    if path is None:
        return None
    key = path.read_bytes()
    try:
        check_key(key)
    except ValueError as error:
        raise ValueError(f"{path} holds no key: {error}") from None
    return key


@dataclass(frozen=True)
class PredictorOptions:
    """Where the predictor is."""

    predictor: options.Predictor = None
    trust: options.Trust = None
    trust_pickle: options.TrustPickle = False

    def chosen(self) -> Any:
        """Return the predictor that is named, or None."""
        text = self.predictor
        if text is None:
            return None
        if ":" in text and not Path(text).exists():
            return imported_object(text)
        return load_predictor(text, trusted=self.trust or (), trust_pickle=self.trust_pickle)


@dataclass(frozen=True)
class ArchiveOptions(PredictorOptions):
    """How an archive is read, with a predictor from elsewhere if one is given."""

    allow_another_predictor: options.AllowAnotherPredictor = False
    classes: options.OwnClasses = None
    key_file: options.KeyFile = None

    @cached_property
    def key(self) -> bytes | None:
        """The key that archives are signed with, if one is given."""
        return chosen_key(self.key_file)

    def loader(self) -> Callable[..., Scorer]:
        """Return `Scorer.load` with all that is chosen but the key."""
        return partial(
            Scorer.load,
            predictor=self.chosen(),
            trusted=tuple(self.trust or ()),
            classes=tuple(imported_object(name) for name in self.classes or ()),
            allow_another_predictor=self.allow_another_predictor,
        )

    def load(self, path: Path, loss: str | None = None, given: Sequence[str] = ()) -> Scorer:
        """Read an archive; `given` names what is passed with rows, ``groups`` or ``weights``."""
        check_file(path)
        scorer = self.loader()(path, loss=chosen_loss(loss), key=self.key)
        if not set(scorer.asks) <= set(given):
            scorer.check_rows_are_enough()
        return scorer

    def warn_if_unsigned(self, path: Path) -> None:
        """Warn that an archive made from a signed one will have no signature."""
        if self.key is None and inspect_archive(path)["is_signed"]:
            warnings.warn(
                f"{path} is signed, and the new archive will not be; to sign it, give the key with "
                "--key-file.",
                LocusWarning,
                stacklevel=2,
            )


def check_file(path: Path) -> None:
    """Raise if there is no such file."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")


def missing_columns(path: object, wanted: Sequence[str], found: Sequence[str]) -> None:
    """Raise if a file has not all the columns that are needed."""
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(f"{path} has no column {', '.join(missing)}; it has {', '.join(found)}.")


def check_output(output: Path, *others: str | Path | None) -> None:
    """Raise, before any work is done, if the output cannot be written or is an input as well."""
    for other in (Path(other) for other in others if other is not None):
        is_same = output.exists() and other.exists() and output.samefile(other)
        if is_same or output.resolve() == other.resolve():
            raise typer.BadParameter(f"the output must be another file than {other}.")
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise ValueError(f"{output} cannot be written: it is a folder, or its folder is missing.")
