"""What a skops file may ask skops to build, checked before skops sees it.

A skops file names a loader and a class for every value, and skops lets any trusted class meet any
loader. Here each loader is tied to the classes it is meant for, and numbers that compiled
constructors use unchecked are checked. skops recognises a value it has built before by a mark in
the file. The marks are replaced, so that each value is built from what was checked in its place.
"""

import inspect
import io
import json
import math
import zipfile
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from locuscore._archive.container import LARGEST_ITEM, ArchiveError, array_header, plain_members

Node = dict[str, Any]
Header = tuple[tuple[int, ...], np.dtype[Any]]

SCHEMA = "schema.json"  # the member that says what the others are
PROTOCOL = 2  # of skops; older files would be read by other loaders, which are not checked here
MOST_FUNCTIONS = 1000  # skops takes some 4 kB for each, fifty times what it takes in the file


def named(names: Mapping[str, str]) -> frozenset[str]:
    """Full names of classes, listed by module."""
    return frozenset(f"{module}.{name}" for module in names for name in names[module].split())


SCALARS = named(
    {
        "builtins": "bool float int str",
        "numpy": "bool bool_ float32 float64 int32 int64 int8 intp str_ uint32 uint64 uint8",
    }
)
BUNCH = "sklearn.utils._bunch.Bunch"
# Functions are called on rows, so none may be on the list that does anything but arithmetic.
CHECK_ARRAY = "sklearn.utils.validation.check_array"
UFUNCS = named({"numpy": "exp expm1 log log10 log1p log2 sqrt square"})
LOSSES = named(
    {
        "sklearn._loss._loss": "CyAbsoluteError CyExponentialLoss CyHalfBinomialLoss "
        "CyHalfGammaLoss CyHalfMultinomialLoss CyHalfPoissonLoss CyHalfSquaredError "
        "CyHalfTweedieLoss CyHalfTweedieLossIdentity CyHuberLoss CyPinballLoss",
        "sklearn.linear_model._sgd_fast": "EpsilonInsensitive Hinge ModifiedHuber "
        "SquaredEpsilonInsensitive SquaredHinge",
    }
)
# Loaders that call something, such as those for methods and for `__reduce__`, are not here.
BUILDS: dict[str, frozenset[str]] = {
    "BytesNode": frozenset({"builtins.bytes"}),
    "DTypeNode": frozenset({"numpy.dtype"}),
    "DictNode": frozenset({"builtins.dict", "collections.OrderedDict", BUNCH}),
    "FunctionNode": UFUNCS | {CHECK_ARRAY},
    "JsonNode": frozenset({"builtins.str"}),
    "ListNode": frozenset({"builtins.list"}),
    "LossNode": LOSSES,
    "MaskedArrayNode": frozenset({"numpy.ma.MaskedArray"}),
    "NdArrayNode": SCALARS | {"numpy.ndarray"},
    "PartialNode": frozenset({"functools.partial"}),
    "RandomGeneratorNode": frozenset({"numpy.random._generator.Generator"}),
    "RandomStateNode": frozenset({"numpy.random.mtrand.RandomState"}),
    "SetNode": frozenset({"builtins.set"}),
    "SliceNode": frozenset({"builtins.slice"}),
    "TreeNode": frozenset({"sklearn.tree._tree.Tree"}),
    "TupleNode": frozenset({"builtins.tuple"}),
    "TypeNode": SCALARS,
}


class SkopsFile:
    """A skops file whose values are known by loader and class; nothing of it is built.

    `objects` are the classes that may be made and filled with attributes.
    """

    def __init__(self, data: bytes, objects: frozenset[str]) -> None:
        self._headers: dict[str, Header] = {}
        # The zip of skops stands inside ours, and could expand or overlap as well.
        self._members = plain_members(data)
        schema = json.loads(bytes(self._members[SCHEMA]))
        if not isinstance(schema, dict) or schema.get("protocol") != PROTOCOL:
            raise ArchiveError(f"it holds a model that is not in protocol {PROTOCOL} of skops.")
        self._builds = BUILDS | {"ObjectNode": objects}
        self._known = frozenset().union(*self._builds.values())
        self.schema, self._nodes = schema, _nodes(schema)

    def member(self, name: str) -> memoryview:
        """Return the bytes of a member, which are not copied."""
        return self._members[name]

    @property
    def kinds(self) -> set[str]:
        """Every class that is named."""
        return {_kind(node) for node in self._nodes}

    def foreign(self) -> set[str]:
        """Classes that are not on the list, or that are to be built in another way than theirs."""
        found = set()
        for node in self._nodes:
            kind, loader = _kind(node), str(node.get("__loader__"))
            if kind not in self._builds.get(loader, ()):
                # Trusting a class by name must not let it through another loader than its own.
                is_odd = kind in self._known or loader not in self._builds
                found.add(f"{kind} by {loader}" if is_odd else kind)
        return found

    def check(self) -> None:
        """Raise where a value that skops would build is not what its class writes."""
        for name in self._members:
            if name.endswith(".npy"):  # numpy would allocate what the header claims
                self.header(name)
        if sum(node["__loader__"] == "FunctionNode" for node in self._nodes) > MOST_FUNCTIONS:
            raise ArchiveError(f"it holds a model with more than {MOST_FUNCTIONS} functions.")
        for node in self._nodes:
            loader, kind = node["__loader__"], _kind(node)
            if loader in CHECKS and kind in self._builds[loader]:
                CHECKS[loader](self, node)

    def rewritten(self) -> bytes:
        """Return the file with marks of our own: an array is read once, nothing else is shared."""
        # With marks of the file, one value could stand for another that was checked as its own.
        marks: dict[tuple[str, str], int] = {}
        for node in self._nodes:
            node.pop("__id__", None)
            if node["__loader__"] == "NdArrayNode" and node["type"] == "numpy":
                node["__id__"] = marks.setdefault((_kind(node), node["file"]), len(marks) + 1)
        text = json.dumps(self.schema).encode()
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as archive:
            for name, data in self._members.items():
                archive.writestr(name, text if name == SCHEMA else data)
        return target.getvalue()

    def array(self, node: Node) -> Header:
        """Shape and type of an array of plain values."""
        known = ("numpy.ndarray", "NdArrayNode", "numpy")
        if (_kind(node), node["__loader__"], node["type"]) != known:
            raise ArchiveError("it holds something else where an array belongs.")
        return self.header(node["file"])

    def header(self, name: str) -> Header:
        """Shape and type in the header of a member, which is read once."""
        if name not in self._headers:
            self._headers[name] = array_header(self._members[name])
        return self._headers[name]


def _nodes(schema: Node) -> list[Node]:
    """Return every value of a schema, wherever it stands."""
    found, waiting = [], [schema]
    while waiting:
        value: Any = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            # One of the three is enough: what skops makes of the rest is not for us to guess.
            if not {"__class__", "__module__", "__loader__"}.isdisjoint(value):
                found.append(value)
            waiting += value.values()
    return found


def _kind(node: Node) -> str:
    return f"{node.get('__module__')}.{node.get('__class__')}"


def _plain(node: Node) -> Any:
    """Value of a number or a text."""
    value = json.loads(node["content"]) if node["__loader__"] == "JsonNode" else node
    if not isinstance(value, str | int | float | None):
        raise ArchiveError("it holds something else where a number or a text belongs.")
    return value


def _items(node: Node, loader: str = "TupleNode") -> list[Node]:
    if node["__loader__"] != loader:
        raise ArchiveError(f"it holds something else where a {loader} belongs.")
    items: list[Node] = node["content"]
    return items


def _fields(node: Node, names: str | None = None) -> Mapping[str, Node]:
    """Entries of a dictionary whose keys are text, and these."""
    if _kind(node) != "builtins.dict" or node["__loader__"] != "DictNode":
        raise ArchiveError("it holds something else where a dictionary belongs.")
    entries: Mapping[str, Node] = node["content"]
    is_text = all(_kind(kind) == "builtins.str" for kind in _items(node["key_types"], "ListNode"))
    if not is_text or (names is not None and set(entries) != set(names.split())):
        raise ArchiveError(f"it holds a dictionary with other keys than {names}.")
    return entries


def _whole(node: Node, low: int, high: int) -> int:
    value = _plain(node)
    # Not isinstance: True counts as 1 there.
    if type(value) is not int or not low <= value <= high:
        raise ArchiveError(f"it holds {str(value)[:40]} where {low} to {high} is possible.")
    return value


def _check_dict(_: SkopsFile, node: Node) -> None:
    kinds = _items(node["key_types"], "ListNode")
    if len(kinds) != len(node["content"]) or any(k["__loader__"] != "TypeNode" for k in kinds):
        raise ArchiveError("it holds a dictionary whose keys have no types.")


def _check_partial(file: SkopsFile, node: Node) -> None:
    """Allow the one partial that scikit-learn writes: how boosted trees look at their rows."""
    content = node["content"]
    if _kind(content["func"]) not in file._known:
        return  # the caller trusts the function, or it is refused
    given = dict(_fields(content["kwds"]))
    dtypes = [_kind(one) for one in _items(given.pop("dtype"), "ListNode")]
    others = {name: _plain(value) for name, value in given.items()}
    if (
        _kind(content["func"]) != CHECK_ARRAY
        or _items(content["args"])
        or dtypes != ["numpy.float64"]
        or others not in ({"ensure_all_finite": False}, {"force_all_finite": False})
        or _plain(content["namespace"]) is not None
    ):
        raise ArchiveError("it holds a partial function that no model needs.")


def _check_array(file: SkopsFile, node: Node) -> None:
    if node["type"] == "numpy":
        shape, dtype = file.header(node["file"])
        if _kind(node) != "numpy.ndarray" and (shape != () or dtype.itemsize > LARGEST_ITEM):
            raise ArchiveError("it holds an array where a single number belongs.")
    elif _kind(node) != "numpy.ndarray" or node["type"] != "json":
        raise ArchiveError("it holds an array of an unknown kind.")
    elif any(_is_matrix(file, item) for item in node["content"]):
        # Rows and columns would be broadcast against each other. Edges of bins are such lists.
        raise ArchiveError("it holds an array of matrices.")
    elif len(_items(node["shape"])) != 1:
        # numpy finds the shape by looking into the items, where sequences would be unpacked.
        waiting, leaves = list(node["content"]), 0
        while waiting:
            item = waiting.pop()
            if item["__loader__"] == "ListNode":
                waiting += item["content"]
            elif item["__loader__"] == "JsonNode" or _kind(item) in SCALARS:
                leaves += 1
            else:
                raise ArchiveError("it holds an array of objects that are no plain values.")
        if math.prod(_whole(length, 0, leaves) for length in _items(node["shape"])) != leaves:
            raise ArchiveError("it holds an array of another shape than its own.")


def _is_matrix(file: SkopsFile, item: Node) -> bool:
    """Whether an item of an array of objects is an array of more than one dimension."""
    if item["__loader__"] != "NdArrayNode":
        return False
    return item["type"] != "numpy" or len(file.header(item["file"])[0]) > 1


def _check_masked(_: SkopsFile, node: Node) -> None:
    # Of a list numpy would make an array, in which every text takes as much as the longest.
    for part in ("data", "mask"):
        if node["content"][part]["__loader__"] != "NdArrayNode":
            raise ArchiveError("it holds something else where an array is masked.")


def _check_dtype(file: SkopsFile, node: Node) -> None:
    # A type is kept as an empty array; arrays made with it have as many bytes per value.
    content = node["content"]
    if content["type"] == "numpy" and file.array(content)[1].itemsize > LARGEST_ITEM:
        raise ArchiveError("it holds a type of values that are too large.")


def _check_random_state(file: SkopsFile, node: Node) -> None:
    """Check the state of a Mersenne twister: its position is an index into 624 words."""
    outer = _fields(node["content"], "bit_generator state has_gauss gauss")
    inner = _fields(outer["state"], "key pos")
    _whole(inner["pos"], 0, 624)
    _whole(outer["has_gauss"], 0, 1)
    if (
        _plain(outer["bit_generator"]) != "MT19937"
        or file.array(inner["key"]) != ((624,), np.dtype("<u4"))
        or not isinstance(_plain(outer["gauss"]), int | float)
    ):
        raise ArchiveError("it holds a random generator in a state that cannot be.")


def _check_generator(file: SkopsFile, node: Node) -> None:
    """Check the state of a PCG64, and of the seeds that further ones would come from."""
    outer = _fields(node["content"]["bit_generator"], "bit_generator state has_uint32 uinteger")
    seeds = _fields(node["content"]["seed_seq"], "entropy spawn_key pool_size n_children_spawned")
    if _plain(outer["bit_generator"]) != "PCG64":
        raise ArchiveError("it holds a random generator of an unknown kind.")
    for number in _fields(outer["state"], "state inc").values():
        _whole(number, 0, 2**128 - 1)
    _whole(outer["has_uint32"], 0, 1)
    _whole(outer["uinteger"], 0, 2**32 - 1)
    _whole(seeds["pool_size"], 4, 4)
    _whole(seeds["n_children_spawned"], 0, 2**32 - 1)
    for number in _items(seeds["spawn_key"]):
        _whole(number, 0, 2**32 - 1)
    if seeds["entropy"]["__loader__"] != "NdArrayNode":
        _whole(seeds["entropy"], 0, 2**256)
    elif _kind(seeds["entropy"]) == "numpy.ndarray":
        raise ArchiveError("it holds a random generator with an unknown seed.")


def _check_loss(_: SkopsFile, node: Node) -> None:
    # The compiled constructor of a loss is called with these.
    settings = [_plain(number) for number in _items(node["__reduce__"]["args"])]
    is_plain = all(type(number) in (int, float) for number in settings)
    if node["content"]["content"] or not is_plain or len(settings) > 1:
        raise ArchiveError("it holds a loss with unknown settings.")


def _check_tree(file: SkopsFile, node: Node) -> None:
    """Check what the compiled constructor of a tree uses as it is, to allocate and to copy."""
    n_features, n_classes, n_outputs = _items(node["__reduce__"]["args"])
    state = _fields(node["content"], "max_depth node_count nodes values")
    shape, dtype = file.array(n_classes)
    nodes, values = file.array(state["nodes"])[0], file.array(state["values"])[0]
    _whole(n_features, 1, 2**31)
    if dtype.kind != "i" or shape != (_whole(n_outputs, 1, 2**31),):
        raise ArchiveError("it holds a tree with other outputs than it claims.")
    if len(nodes) != 1 or not 0 < nodes[0] == _whole(state["node_count"], 1, 2**62):
        raise ArchiveError("it holds a tree that claims other nodes than it has.")
    if len(values) != 3 or min(values) < 1:
        raise ArchiveError("it holds a tree without values.")
    _whole(state["max_depth"], 0, nodes[0])


def _check_object(_: SkopsFile, node: Node) -> None:
    """Raise where an attribute would take the place of a method."""
    content = node.get("content")
    if content is None or (content["__loader__"] == "JsonNode" and _plain(content) is None):
        return
    # Only classes on the list come here; others the caller trusts, or they were refused before.
    kind = getattr(import_module(node["__module__"]), node["__class__"])
    for name in _fields(content):
        own = inspect.getattr_static(kind, name, None)
        if name.startswith("__") or callable(own) or hasattr(own, "__get__"):
            raise ArchiveError(f"it holds a {kind.__name__} whose {name} is replaced.")


CHECKS: dict[str, Callable[[SkopsFile, Node], None]] = {
    "DTypeNode": _check_dtype,
    "DictNode": _check_dict,
    "JsonNode": lambda _, node: _plain(node),
    "LossNode": _check_loss,
    "MaskedArrayNode": _check_masked,
    "NdArrayNode": _check_array,
    "ObjectNode": _check_object,
    "PartialNode": _check_partial,
    "RandomGeneratorNode": _check_generator,
    "RandomStateNode": _check_random_state,
    "TreeNode": _check_tree,
}
