"""Weights of torch modules, kept as plain arrays and put into a module that the caller has made.

The module itself is code, which no archive holds. Names, shapes and types must be those of the
module, so what is put into it has the size that it has already.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from locuscore._archive.container import ArchiveError

# Types by torch's name, and the type of numpy that has their bits.
TYPES = {
    "bool": np.bool_,
    "uint8": np.uint8,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "float16": np.float16,
    "bfloat16": np.int16,
    "float32": np.float32,
    "float64": np.float64,
}

Weights = dict[str, tuple[str, np.ndarray]]  # by name: the type, and the bits


def modules_of(predictor: Any) -> tuple[Any, ...]:
    """Modules of torch that a predictor runs: those in its `modules`, or itself; none elsewhere."""
    torch = sys.modules.get("torch")  # who has a module has imported it
    if torch is None:
        return ()
    if isinstance(predictor, torch.nn.Module):
        return (predictor,)
    modules = getattr(predictor, "modules", ())
    are_some = isinstance(modules, tuple) and all(isinstance(m, torch.nn.Module) for m in modules)
    return modules if are_some else ()


def weights_of(module: Any) -> Weights:
    """Return parameters and buffers of a module; raise where one has no plain form."""
    torch = sys.modules["torch"]
    found = {}
    for name, value in module.state_dict().items():
        kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
        is_plain = isinstance(value, torch.Tensor) and value.layout is torch.strided
        if not is_plain or kind not in TYPES or value.device.type == "meta":
            what = kind or type(value).__name__
            raise ValueError(
                f"{name} in {type(module).__name__} is {what}, which is no plain array"
            )
        bits = value.detach().cpu().contiguous()
        bits = bits.view(torch.int16) if kind == "bfloat16" else bits
        found[name] = (kind, bits.numpy())
    return found


def put_weights(modules: Sequence[Any], weights: Sequence[Weights]) -> None:
    """Put weights into modules, if all fit; before that, nothing is changed."""
    if len(modules) != len(weights):
        raise ArchiveError(
            f"it holds the weights of {len(weights)} modules, and the predictor has "
            f"{len(modules)}; pass a predictor made as in fit."
        )
    for module, found in zip(modules, weights, strict=True):
        _check(module, found)
    torch = sys.modules["torch"]
    for module, found in zip(modules, weights, strict=True):
        state = {}
        for name, (kind, bits) in found.items():
            value = torch.from_numpy(np.ascontiguousarray(bits).reshape(bits.shape))
            state[name] = value.view(torch.bfloat16) if kind == "bfloat16" else value
        module.load_state_dict(state, strict=True)


@contextmanager
def unchanged_if_refused(predictor: Any) -> Iterator[None]:
    """Put a predictor's own weights back if an archive is refused after its weights were put in."""
    before = [
        {name: value.clone() for name, value in module.state_dict().items() if _has_values(value)}
        for module in modules_of(predictor)
    ]
    try:
        yield
    except BaseException:
        for module, own in zip(modules_of(predictor), before, strict=True):
            module.load_state_dict(own, strict=False)
        raise


def _has_values(value: Any) -> bool:
    torch = sys.modules["torch"]
    is_lazy = isinstance(value, torch.nn.parameter.UninitializedTensorMixin)
    return isinstance(value, torch.Tensor) and not is_lazy


def _check(module: Any, weights: Mapping[str, tuple[str, np.ndarray]]) -> None:
    """Raise unless weights have the names, shapes and types of a module."""
    torch, own = sys.modules["torch"], module.state_dict()
    title = f"the module {type(module).__name__} that was passed"
    missing, unknown = sorted(set(own) - set(weights)), sorted(set(weights) - set(own))
    if missing or unknown:
        lacks = [f"there are none of {', '.join(missing[:5])}"] if missing else []
        others = [f"the module has no {', '.join(unknown[:5])}"] if unknown else []
        told = "; ".join(lacks + others)
        raise ArchiveError(f"its weights are not those of {title}: {told}.")
    for name, (kind, bits) in weights.items():
        if isinstance(own[name], torch.nn.parameter.UninitializedTensorMixin):
            raise ArchiveError(f"{title} has no shapes yet; run it once on some rows first.")
        here = str(own[name].dtype).removeprefix("torch.")
        if kind != here or tuple(own[name].shape) != bits.shape or bits.dtype != TYPES[kind]:
            raise ArchiveError(
                f"its weights {name} are {kind} of shape {bits.shape}, and {title} has {here} of "
                f"shape {tuple(own[name].shape)}; make it as in fit."
            )


def encoded_weights(modules: Sequence[Any]) -> list[dict[str, list[Any]]]:
    """Return the weights of each module in values that an archive can write."""
    return [
        {name: [kind, bits] for name, (kind, bits) in weights_of(module).items()}
        for module in modules
    ]


def decoded_weights(values: Any) -> list[Weights]:
    """Return weights from the values of an archive; raise where they are none."""
    if not isinstance(values, list) or not all(map(_are_weights, values)):
        raise ArchiveError("its weights are not in the form in which they are saved.")
    return [{name: (kind, bits) for name, (kind, bits) in one.items()} for one in values]


def _are_weights(value: Any) -> bool:
    """Whether a value is a dictionary of names, each with a type on the list and an array."""
    return isinstance(value, dict) and all(
        isinstance(name, str)
        and isinstance(pair, list)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and pair[0] in TYPES
        and isinstance(pair[1], np.ndarray)
        for name, pair in value.items()
    )
