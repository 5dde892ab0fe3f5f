"""How a module is run: in batches, without gradients, in evaluation mode, and left as it was."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from locuscore._protocols import Rows
from locuscore._shared.frames import as_frame, n_rows, read_array, take_rows

Transform = Callable[[Any], Any]

# One thread at a time: another would find a module's mode, or its hooks, changed under its hands.
_LOCK = RLock()


def _renew_lock() -> None:
    global _LOCK  # noqa: PLW0603 - a fork copies a lock, but not the thread that would release it
    _LOCK = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def evaluated(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Run modules in evaluation mode and without gradients; each part has its own mode back."""
    with _LOCK:
        modes = [(part, part.training) for module in modules for part in module.modules()]
        try:
            for module in modules:
                module.eval()
            with torch.no_grad():
                yield
        finally:
            for part, mode in modes:
                part.training = mode


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows as what a module is called with."""

    start: int
    n: int
    args: tuple[Any, ...]
    options: dict[str, Any]

    def run(self, module: nn.Module) -> Any:
        """Call a module."""
        return module(*self.args, **self.options)


@dataclass(frozen=True)
class Batches:
    """Rows on their way to a module: `size` at a time, made tensors, moved to its device."""

    transform: Transform | None
    size: int
    device: torch.device
    dtype: torch.dtype

    def of(self, X: Rows) -> Iterator[Batch]:
        """The batches of rows, in order; one empty batch where there are no rows."""
        n = n_rows(X)
        for start in range(0, max(n, 1), self.size):
            rows = take_rows(X, slice(start, start + self.size))
            made = _numbers(rows) if self.transform is None else self.transform(rows)
            args, options = (), {}
            if isinstance(made, dict):
                options = {name: self._moved(part) for name, part in made.items()}
            else:
                parts = made if isinstance(made, tuple | list) else (made,)
                args = tuple(self._moved(part) for part in parts)
            yield Batch(start, min(self.size, n - start), args, options)

    def _moved(self, part: Any) -> Any:
        if isinstance(part, np.ndarray):
            part = torch.as_tensor(part)
        if not isinstance(part, Tensor):
            raise TypeError(
                "transform must turn rows into a tensor, or a tuple or dict of tensors that the "
                f"module is called with; got {type(part).__name__}."
            )
        is_float = part.is_floating_point()
        return part.to(self.device, self.dtype if is_float else None)


def _numbers(rows: Rows) -> Tensor:
    """Rows of numbers as a tensor, where no transform is given."""
    if hasattr(rows, "toarray"):
        rows = rows.toarray()
    values = read_array(rows, "X") if as_frame(rows) is None else np.asarray(rows)
    if values.dtype.kind == "O":
        with suppress(TypeError, ValueError):
            values = values.astype(np.float64)
    if values.dtype.kind not in "biuf":
        raise TypeError(
            f"X holds values of type {values.dtype}, which make no tensor; pass a transform that "
            "turns rows into tensors: TorchPredictor(net, transform=...)."
        )
    is_whole = values.dtype.kind in "iu"
    # A table of whole numbers is a table of numbers; codes for an embedding need a transform.
    return torch.as_tensor(values.astype(np.float64) if is_whole else np.ascontiguousarray(values))


def checked_device(device: Any, modules: Sequence[nn.Module]) -> torch.device:
    """Return the device to run on: the one that was named, else that of the module's weights."""
    if device is None:
        weights = [*modules[0].parameters(), *modules[0].buffers()]
        return weights[0].device if weights else torch.device("cpu")
    try:
        found = torch.device(device)
        if found.type != "meta":
            torch.empty(1, device=found)
            return found
        reason = "it holds no values"
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).split("\n", maxsplit=1)[0]
    raise ValueError(
        f"the device {device!r} is not available here ({reason}); leave device out to run the "
        "module where its weights are."
    )


def float_type(module: nn.Module) -> torch.dtype:
    """Return the type of a module's weights, which its inputs must have."""
    kinds = (part.dtype for part in module.parameters() if part.is_floating_point())
    return next(kinds, torch.float32)


def as_numpy(values: Tensor) -> np.ndarray:
    """Return values on the CPU as an array; types that numpy lacks become float32."""
    kept = values.detach().cpu()
    is_half = kept.dtype in (torch.bfloat16, torch.float16)
    return (kept.float() if is_half else kept).numpy()
