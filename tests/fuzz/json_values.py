"""Changes to JSON, also to what skops says in it: values, keys, whole parts."""

import json
from copy import deepcopy

from fuzz.numbers import FLOATS, INTEGERS

TEXTS = ["", "\0", "NaN", "../x", "constant", "auto", "drop", "passthrough", "O", "uniform", "é"]
TEXTS += ["S1000000000", "M8[us], S1000000000"]


class Raw(str):
    """Text that stands in JSON as it is."""


RAW = [Raw(text) for text in ("NaN", "1e999", "-Infinity", "9" * 5000, "[" * 5000 + "]" * 5000)]


# JSON. Objects are lists of pairs, so that a key can stand in them twice.


class Pairs(list):
    """An object of JSON."""


def read_json(data):
    return json.loads(data, object_pairs_hook=lambda pairs: Pairs(map(list, pairs)))


def write_json(value):
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{json.dumps(k)}:{write_json(v)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write_json, value)) + "]"
    return str(value) if isinstance(value, Raw) else json.dumps(value)


def node(loader, module, name, **rest):
    kind = {"__class__": name, "__module__": module, "__loader__": loader}
    return read_json(json.dumps(kind | {"__id__": 7} | rest))


def plain(value):
    return node(
        "JsonNode", "builtins", type(value).__name__, content=json.dumps(value), is_json=True
    )


def sequence(loader, name, *items, module="builtins"):
    return node(loader, module, name, content=list(items))


NDARRAY = node("TypeNode", "numpy", "ndarray")
NASTY = [
    node(
        "PartialNode",
        "functools",
        "partial",
        content={
            "func": NDARRAY,
            "args": sequence(
                "TupleNode", "tuple", sequence("TupleNode", "tuple", plain(1), plain(3)), plain("O")
            ),
            "kwds": node(
                "DictNode", "builtins", "dict", content={}, key_types=sequence("ListNode", "list")
            ),
            "namespace": node(
                "DictNode", "builtins", "dict", content={}, key_types=sequence("ListNode", "list")
            ),
        },
    ),
    NDARRAY,
    sequence("ListNode", "ndarray", plain(3 * 10**8), module="numpy"),
    sequence("TupleNode", "ndarray", plain(3 * 10**8), module="numpy"),
    sequence("SetNode", "bytes", plain(3 * 10**8)),
    node("FunctionNode", "numpy", "exp", content={"module_path": "numpy", "function": "ndarray"}),
    node("TypeNode", "builtins", "bytes"),
    node("DTypeNode", "numpy", "dtype", content=plain("O")),
    node("SliceNode", "builtins", "slice", content={"start": None, "stop": 2**62, "step": None}),
]
LOADERS = ["Type", "Partial", "Function", "List", "Object", "Tree", "NdArray", "RandomState"]
LOADERS += ["MaskedArray", "DType", "Method", "Json"]
KINDS = ["Forests", "Forest", "MDN", "BART", "Encoder", "Schema", "KNNGamma", "Bagged", "Floor"]
KINDS += ["Neighbours", "RowSet", "Support", "Target", "Trained", "UsedRows"]
NAMES = {
    "__class__": [
        "ndarray",
        "partial",
        "RandomState",
        "Tree",
        "Pipeline",
        "list",
        "Generator",
        "exp",
    ],
    "__module__": ["numpy", "functools", "builtins", "sklearn.tree._tree", "numpy.random.mtrand"],
    "__loader__": [f"{name}Node" for name in LOADERS],
    "class": KINDS,  # in format 1
    "kind": KINDS,
    "is": [
        "array",
        "object",
        "skops",
        "tuple",
        "dict",
        "bytes",
        "neighbours",
        "lightgbm",
        "objects",
        "text",
        "float",
    ],
}


def places(value):
    """Every (container, index, key) in a JSON value; an object's values stand in its pairs."""
    found, waiting = [], [(value, "")]
    while waiting:
        inside, key = waiting.pop()
        for index, item in enumerate(inside):
            where = (item, 1, item[0]) if isinstance(inside, Pairs) else (inside, index, key)
            found.append(where)
            held = where[0][where[1]]
            if isinstance(held, list):
                waiting.append((held, where[2]))
    return found


def mutate_json(data, rng):
    root = read_json(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        every = places(root)
        found = every
        if rng.random() < 0.5:  # all entries of a long list count as one
            key = rng.choice(sorted({key for _, _, key in every}))
            found = [place for place in every if place[2] == key]
        _change_place(every, *rng.choice(found), rng)
    return write_json(root).encode()


def _change_place(every, inside, index, key, rng):
    old = inside[index]
    match rng.randrange(8):
        case 0 | 1 if key in NAMES:
            present = [box[i] for box, i, other in every if other == key]
            inside[index] = rng.choice(present + NAMES[key])
        case 0 | 1 | 2 | 3:
            inside[index] = _other_plain(old, rng)
        case 4:
            other, i, _ = rng.choice(every)
            new = deepcopy(other[i])  # a part may stand inside the other
            other[i] = deepcopy(old)
            inside[index] = new
        case 5:
            other, i, _ = rng.choice(every)
            inside[index] = deepcopy(other[i])
        case 6:
            inside[index] = deepcopy(rng.choice(NASTY + RAW))
        case 7:
            lists = [box[i] for box, i, _ in every if isinstance(box[i], list) and box[i]]
            if isinstance(old, list) or lists:  # an object of plain values has none
                _change_container(old if isinstance(old, list) else rng.choice(lists), rng)


def _other_plain(old, rng):
    if isinstance(old, bool) or old is None:
        return rng.choice([True, False, None, "x", [], *INTEGERS])
    if isinstance(old, str):
        inner = old[:1] in "[{0123456789-" and old != "" and rng.random() < 0.5
        if inner:  # skops keeps plain values as JSON in a string
            return rng.choice(
                ["null", "[]", "{}", "-1", "1e999", "NaN", '"O"', str(rng.choice(INTEGERS))]
            )
        cut = rng.randrange(len(old) + 1)
        return rng.choice([*TEXTS, old[:cut], old + rng.choice(TEXTS), 3, None, [old]])
    if isinstance(old, list):
        return rng.choice([None, 0, "", [], Pairs(), old * 2])
    near = [old + 1, old - 1, -old, 2 * old, float(old), str(old)]
    return rng.choice(INTEGERS + FLOATS + near + near)


def _change_container(values, rng):
    if values:
        i, j = rng.randrange(len(values)), rng.randrange(len(values))
        match rng.randrange(4):
            case 0:
                del values[i]
            case 1:
                values.insert(j, values[i])
            case 2 if isinstance(values, Pairs):
                values.append([values[i][0], values[j][1]])
            case _:
                values[i], values[j] = values[j], values[i]
