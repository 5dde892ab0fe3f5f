"""Objects of a skops file whose every value is known: built here, without skops.

To import skops takes half a second, since it imports all of scikit-learn and its tests, and it
copies each array four times. What it builds of a checked file is little: one kind of value for each
loader in `skops_schema.BUILDS`. A file with types that only the caller trusts is left to skops.
"""

import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from locuscore._archive.container import read_array, view_array
from locuscore._archive.skops_schema import Node, SkopsFile


class Builder:
    """Builds the values of a file that has been checked, and has no foreign types."""

    def __init__(self, file: SkopsFile) -> None:
        self._file = file
        self._arrays: dict[str, np.ndarray] = {}
        self._texts: dict[str, bytes] = {}

    def build(self, node: Node) -> Any:
        """Return the object that stands at a node of the schema."""
        return LOADERS[node["__loader__"]](self, node)

    def named(self, node: Node) -> Any:
        """Return what a node names; only what is on the list comes here."""
        return getattr(import_module(node["__module__"]), node["__class__"])

    def array(self, node: Node) -> np.ndarray:
        """Return an array of plain values, made once for all nodes that name its file."""
        name = node["file"]
        if name not in self._arrays:
            self._arrays[name] = read_array(self._file.member(name))
        return self._arrays[name]

    def text(self, node: Node) -> bytes:
        """Return bytes, made once for all nodes that name their file."""
        name = node["file"]
        if name not in self._texts:
            self._texts[name] = bytes(self._file.member(name))
        return self._texts[name]

    def items(self, node: Node) -> list[Any]:
        """Return what stands in a list, a tuple or a set."""
        return [self.build(item) for item in node["content"]]

    def dictionary(self, node: Node) -> Any:
        """Return a dictionary; the types of its keys stand beside it."""
        found = self.named(node)()
        kinds = self.build(node["key_types"])
        for kind, (key, value) in zip(kinds, node["content"].items(), strict=True):
            found[kind(key)] = self.build(value)
        return found

    def values(self, node: Node) -> Any:
        """Return an array, or a single number or text of numpy's."""
        if node["type"] == "numpy":
            array, kind = self.array(node), self.named(node)
            return array if kind is np.ndarray else kind(array)
        items = [self.build(item) for item in node["content"]]
        if len(self.build(node["shape"])) > 1:
            return np.array(items, dtype=object)
        found = np.empty(len(items), dtype=object)
        for place, item in enumerate(items):  # at once, numpy would look into the items
            found[place] = item
        return found

    def partial(self, node: Node) -> Any:
        """Return the one partial function that the check lets through."""
        content = node["content"]
        return partial(self.build(content["func"]), **self.build(content["kwds"]))

    def tree(self, node: Node) -> Any:
        """Return a tree, which copies its nodes and values itself."""
        found = self.named(node)(*self.build(node["__reduce__"]["args"]))
        state = dict(node["content"]["content"])
        arrays = {
            name: view_array(self._file.member(state.pop(name)["file"]))
            for name in ("nodes", "values")
        }
        found.__setstate__(arrays | {name: self.build(value) for name, value in state.items()})
        return found

    def object(self, node: Node) -> Any:
        """Return an object with the given attributes; no constructor is called."""
        kind = self.named(node)
        found = kind.__new__(kind)
        attributes = self.build(node["content"]) if node.get("content") is not None else None
        if attributes is not None:
            if hasattr(found, "__setstate__"):
                found.__setstate__(attributes)
            else:
                vars(found).update(attributes)
        return found


def _random_state(builder: Builder, node: Node) -> Any:
    found = np.random.RandomState()
    found.set_state(builder.build(node["content"]))
    return found


def _generator(builder: Builder, node: Node) -> Any:
    seeds = np.random.SeedSequence(**builder.build(node["content"]["seed_seq"]))
    bits = np.random.PCG64(seeds)  # the only kind that the check lets through
    bits.state = builder.build(node["content"]["bit_generator"])
    return np.random.Generator(bits)


def _slice(_: Builder, node: Node) -> Any:
    return slice(*(node["content"][name] for name in ("start", "stop", "step")))


def _masked(builder: Builder, node: Node) -> Any:
    data, mask = (builder.build(node["content"][name]) for name in ("data", "mask"))
    return np.ma.MaskedArray(data, mask)


LOADERS: dict[str, Callable[[Builder, Node], Any]] = {
    "BytesNode": Builder.text,
    "DTypeNode": lambda builder, node: builder.build(node["content"]).dtype,
    "DictNode": Builder.dictionary,
    "FunctionNode": Builder.named,
    "JsonNode": lambda _, node: json.loads(node["content"]),
    "ListNode": Builder.items,
    "LossNode": lambda builder, node: builder.named(node)(
        *builder.build(node["__reduce__"]["args"])
    ),
    "MaskedArrayNode": _masked,
    "NdArrayNode": Builder.values,
    "ObjectNode": Builder.object,
    "PartialNode": Builder.partial,
    "RandomGeneratorNode": _generator,
    "RandomStateNode": _random_state,
    "SetNode": lambda builder, node: set(builder.items(node)),
    "SliceNode": _slice,
    "TreeNode": Builder.tree,
    "TupleNode": lambda builder, node: tuple(builder.items(node)),
    "TypeNode": Builder.named,
}


def build(file: SkopsFile) -> Any:
    """Return the object of a checked file without foreign types."""
    return Builder(file).build(file.schema)
