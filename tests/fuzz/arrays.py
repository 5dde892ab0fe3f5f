"""Changes to arrays in numpy's format: their values, and what the header says of them."""

import io
import re
import warnings

import numpy as np

from fuzz.numbers import FLOATS, INTEGERS

DTYPES = [
    "|O",
    "<f8",
    ">f8",
    "<f4",
    "<i8",
    "<i4",
    "|i1",
    "<u8",
    "<U3",
    "|S8",
    "|V8",
    "<M8[s]",
    "|b1",
]


def mutate_array(data, rng):
    """Change values of an array, or what its header says of them."""
    array = np.load(io.BytesIO(data), allow_pickle=False)
    start = data.index(b"\n") + 1
    header = data[:start].decode("latin-1")
    match rng.randrange(8):
        case 0:
            return _with_header(data, start, rng.choice(_shapes(array)), array.dtype.descr, rng)
        case 1:
            kind = rng.choice(DTYPES)
            return _with_header(data, start, array.shape, kind, rng)
        case 2:
            return _array_bytes(_reshaped(array, rng))
        case 3:
            number = rng.choice([m.span() for m in re.finditer(r"\d+", header[10:])])
            number = (number[0] + 10, number[1] + 10)
            changed = header[: number[0]] + str(rng.choice(INTEGERS)) + header[number[1] :]
            return changed.encode("latin-1") + data[start:]
        case _:
            return _array_bytes(_other_values(array, rng))


def _array_bytes(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    return file.getvalue()


def _shapes(array):
    shape, n = array.shape, array.size
    return [(), (n,), (n, 1), (1, n), (0, n), (-1,), (n + 1,), (*shape, 1), shape[::-1], (2**62, 4)]


def _with_header(data, start, shape, descr, rng):
    """Give the data another header, and mostly the number of bytes that it says."""
    file = io.BytesIO()
    order = rng.random() < 0.3
    np.lib.format.write_array_header_1_0(
        file,
        {
            "shape": shape,
            "fortran_order": order,
            "descr": descr if isinstance(descr, str) else _plain_descr(descr),
        },
    )
    content = data[start:]
    size = np.dtype(descr).itemsize * abs(int(np.prod(shape, dtype=object)))
    if size < 10**6 and rng.random() < 0.8:
        content = (content + bytes(size))[:size]
    return file.getvalue() + content


def _plain_descr(descr):
    return descr[0][1] if len(descr) == 1 and descr[0][0] == "" else descr


def _reshaped(array, rng):
    match rng.randrange(6):
        case 0:
            return array.ravel()[: rng.randrange(array.size + 1)]
        case 1:
            return array[:0] if array.ndim else array[None]
        case 2:
            return np.concatenate([array.ravel()] * 2)
        case 3:
            return array[..., None]
        case 4:
            return array.T
        case _:
            kinds = ["<f8", "<i8", "<i4", "<f4", "|b1", "<U5"]
            return array if array.dtype.names else array.astype(rng.choice(kinds))


def _other_values(array, rng):
    array = array.copy()
    if not array.size:
        return np.zeros(3, array.dtype)
    whole = array.reshape(-1)
    values = whole[rng.choice(array.dtype.names)] if array.dtype.names else whole
    where = rng.randrange(values.size) if rng.random() < 0.7 else slice(None)
    i, j = rng.randrange(values.size), rng.randrange(values.size)
    if values.dtype.kind in "USMmV":
        values[where] = values[i]
        return whole.reshape(array.shape)
    if values.dtype.kind == "f":
        new = rng.choice([*FLOATS, *FLOATS, *INTEGERS, -float(values[i]), 1e3 * float(values[i])])
    else:
        old = int(values[i])
        new = rng.choice([*INTEGERS, old + 1, old - 1, -old, values.size, int(values[j])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values[where] = np.array(_wrapped(new, values.dtype)).astype(values.dtype)
    return whole.reshape(array.shape)


def _wrapped(value, dtype):
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return min(max(value, limits.min), limits.max)
    return float(value) if dtype.kind == "f" else bool(value)
