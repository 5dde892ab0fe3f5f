"""The file behind `Scorer.save`: a zip of named members, checked before any of them is read.

Nothing in it is compressed, so nothing can expand, and nothing is ever unpacked to disk. The
manifest has a digest of every member. That guards against damage, not against somebody who
rewrites both. With a key, the comment of the zip is the HMAC-SHA256 of the manifest's bytes: a
member could not be listed in the manifest that it signs, and a reader without the key can ignore a
comment. Nothing outside the manifest and the members is ever read.
"""

import hashlib
import hmac
import io
import json
import math
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from locuscore._shared.checks import check_key
from locuscore._shared.files import write_atomically

FORMAT = 2  # raised when an older version could not read what this one writes
MANIFEST = "manifest.json"
# No dots in folders, no absolute paths: even a tool that unpacks the file writes below its folder.
MEMBER_NAME = re.compile(r"([a-z0-9_]+/)?[a-z0-9_]+\.(cbm|json|npy|onnx|skops|txt)")
LARGEST_MANIFEST = 2**24  # bytes that are read before anything is known about the file
SIGNATURE = re.compile(rb"[0-9a-f]{64}")
# An empty array has no bytes to compare its header with, but arrays made from it may be large.
LARGEST_ITEM = 2**16  # bytes of one of its values
LARGEST_EMPTY = 2**20  # product of its lengths other than zero
LARGEST_HEADER = 2**14  # bytes; numpy reads no description of an array above 10,000
LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a member: signature, lengths of name and extra
OLDEST_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same scorer gives the same headers on any day

Result = TypeVar("Result")


NOT_WHAT_IT_SHOULD_BE = "a part of it is missing, or is not of the kind that it should be"


class ArchiveError(ValueError):
    """An archive that is damaged, unsafe, or not for this version.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from locuscore import ArchiveError, Scorer
    >>> path = Path(mkdtemp(), "broken.locus")
    >>> _ = path.write_bytes(b"no archive")
    >>> try:
    ...     Scorer.load(path)
    ... except ArchiveError:
    ...     print("refused")
    ...
    refused
    """


def write_archive(
    path: str | Path,
    manifest: Mapping[str, Any],
    members: Mapping[str, Any],
    key: bytes | None = None,
) -> None:
    """Write members and their manifest to one file, all or nothing; signed if there is a key."""
    listed = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    }
    full = {"format": FORMAT, **manifest, "members": listed}
    text = json.dumps(full, indent=1, allow_nan=False).encode()
    comment = b"" if key is None else _signature(text, check_key(key))

    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.comment = comment
            for name, data in {MANIFEST: text, **members}.items():
                archive.writestr(zipfile.ZipInfo(name, OLDEST_ZIP_DATE), data)

    write_atomically(path, write)


def read_manifest(path: str | Path, key: bytes | None = None) -> dict[str, Any]:
    """The manifest of an archive, and nothing else of it; see also `inspect_archive`.

    With a key, the archive must be signed with it, or `ArchiveError` is raised.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from locuscore import Locus, Scorer, read_manifest
    >>> from locuscore.engines import Scale
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> g = LinearRegression().fit(X[:100], y[:100])
    >>> locus = Locus(g, engine=Scale(), random_state=0).fit(X[100:], y[100:])
    >>> path = Path(mkdtemp(), "prices.locus")
    >>> Scorer(locus).save(path)
    >>> sorted(read_manifest(path))[:3]
    ['alphas', 'card', 'columns']
    """
    return _read(path, _manifest, key)


def read_archive(
    path: str | Path, key: bytes | None = None
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest and all members, each compared with its digest.

    With a key, the signature is checked before anything but the table of contents is parsed.
    """
    return _read(path, _contents, key)


def is_signed(path: str | Path) -> bool:
    """Whether an archive has a signature, be it right or wrong."""
    return _read(path, lambda archive, _: SIGNATURE.fullmatch(archive.comment) is not None)


def array_bytes(values: np.ndarray) -> bytes:
    """Return an array of numbers, text or times in numpy's own format."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(values), allow_pickle=False)
    return file.getvalue()


def read_array(data: bytes | memoryview) -> np.ndarray:
    """Return the array; its header must describe exactly the bytes that follow."""
    return view_array(data).copy(order="K")


def view_array(data: bytes | memoryview) -> np.ndarray:
    """Return the array in the memory of the bytes; it cannot be changed."""
    shape, dtype, is_fortran, start = _header(data)
    if not math.prod(shape, start=dtype.itemsize):
        return np.zeros(shape, dtype)  # numpy makes room for a text of no length
    found = np.frombuffer(data, dtype, offset=start)
    return found.reshape(shape, order="F" if is_fortran else "C")


def read_json(data: bytes, name: str) -> dict[str, Any]:
    """Return the object that a member holds as JSON."""
    try:
        found: dict[str, Any] = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError(f"its member {name!r} is no JSON that can be read") from None
    if not isinstance(found, dict):
        raise ValueError(f"its member {name!r} holds no object")
    return found


def array_header(data: bytes | memoryview) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of an array, if it has plain values and exactly the bytes it claims.

    numpy allocates what a header says before it looks at the data.
    """
    return _header(data)[:2]


def _header(data: bytes | memoryview) -> tuple[tuple[int, ...], np.dtype[Any], bool, int]:
    """Return shape, type, whether columns come first, and where the values start."""
    file = io.BytesIO(data[:LARGEST_HEADER])
    try:
        version = np.lib.format.read_magic(file)
    except ValueError:
        raise ArchiveError("an array in it is none in the format of numpy.") from None
    # Version 3 differs in names of fields only, which no array of ours has beyond ASCII.
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ArchiveError(f"an array in it has the unknown format {version}.")
    try:
        shape, is_fortran, dtype = read(file)
    except ValueError:
        raise ArchiveError("an array in it has an unreadable header.") from None
    if dtype.subdtype is not None:  # its lengths would be added to the shape that is checked
        raise ArchiveError("an array in it holds arrays.")
    if dtype.hasobject:
        raise ArchiveError("an array in it holds Python objects, which only pickle could read.")
    # In Python's integers, which do not overflow.
    size = math.prod(map(int, shape), start=dtype.itemsize)
    if min(shape, default=0) < 0 or size != len(data) - file.tell():
        raise ArchiveError(f"an array in it claims the shape {shape}, but has other contents.")
    others = math.prod(int(length) for length in shape if length)
    if size == 0 and (dtype.itemsize > LARGEST_ITEM or others > LARGEST_EMPTY):
        raise ArchiveError("an array in it is empty, but very large in all but one way.")
    return shape, dtype, is_fortran, file.tell()


def plain_zip(file: IO[bytes], size: int) -> zipfile.ZipFile:
    """Open a zip whose members are plain, uncompressed files, together no larger than the zip."""
    archive = zipfile.ZipFile(file)
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    # Two readers of such a zip may see two different members under one name.
    if len(set(names)) < len(names):
        raise ArchiveError("it holds several members of one name.")
    for entry in entries:
        # A link would point outside; the mode is absent in zips from other systems.
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG) or entry.is_dir():
            raise ArchiveError(f"its member {entry.filename!r} is no plain file.")
        is_plain = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1
        if not is_plain or entry.file_size != entry.compress_size:
            raise ArchiveError(
                f"its member {entry.filename!r} is compressed or encrypted, which no archive of "
                "locuscore is."
            )
    # A small file whose members share their bytes would be read as a large one.
    if sum(entry.file_size for entry in entries) > size:
        raise ArchiveError("its members overlap: they claim more bytes than the file has.")
    return archive


def plain_members(data: bytes) -> dict[str, memoryview]:
    """Return the members of a zip in memory by name, without copying them."""
    found, view = {}, memoryview(data)
    with plain_zip(io.BytesIO(data), len(data)) as archive:
        for entry in archive.infolist():
            archive.open(entry).close()  # compares what stands there with the table of contents
            # Before the bytes stand the name and what else the writer put there.
            signature, *lengths = LOCAL_HEADER.unpack_from(data, entry.header_offset)
            start = entry.header_offset + LOCAL_HEADER.size + sum(lengths)
            member = view[start : start + entry.file_size]
            if signature != b"PK\3\4" or zlib.crc32(member) != entry.CRC:
                raise ArchiveError(f"its member {entry.filename!r} is damaged.")
            found[entry.filename] = member
    return found


def checked(read: Callable[[], Result], path: str | Path) -> Result:
    """Read, and turn whatever a broken file provokes into one error."""
    try:
        return read()
    except ArchiveError as error:
        raise ArchiveError(f"{path} cannot be loaded: {error}") from None
    except (ModuleNotFoundError, Warning):
        raise  # they say something about this machine, not about the file
    except Exception as error:  # what a damaged or forged file provokes has many types
        # A ValueError says what was expected; what others say is about Python, not about the file.
        why = str(error).rstrip(".") if isinstance(error, ValueError) else NOT_WHAT_IT_SHOULD_BE
        raise ArchiveError(f"{path} is no archive of locuscore, or is damaged: {why}.") from error


def _read(
    path: str | Path,
    read: Callable[[zipfile.ZipFile, bytes | None], Result],
    key: bytes | None = None,
) -> Result:
    bare = None if key is None else check_key(key)
    with Path(path).open("rb") as file:
        return checked(lambda: read(_open(file), bare), path)


def _open(file: IO[bytes]) -> zipfile.ZipFile:
    size = os.fstat(file.fileno()).st_size
    archive = plain_zip(file, size)
    for name in archive.namelist():
        if MEMBER_NAME.fullmatch(name) is None:
            raise ArchiveError(f"it holds a member of the unsafe name {name!r}.")
    return archive


def _signature(manifest: bytes, key: bytes) -> bytes:
    return hmac.digest(key, manifest, "sha256").hex().encode()


def _authenticate(manifest: bytes, signature: bytes, key: bytes) -> None:
    # Takes the same time wherever two texts differ, so that no signature can be found by trying.
    if hmac.compare_digest(signature, _signature(manifest, key)):
        return
    if SIGNATURE.fullmatch(signature) is None:
        raise ArchiveError(
            "it is not signed, and a key was given; save it with the key, or leave the key out if "
            "you trust where the file comes from."
        )
    raise ArchiveError(
        "its signature is not that of the given key: it was signed with another key, or changed "
        "afterwards."
    )


def _manifest(archive: zipfile.ZipFile, key: bytes | None) -> dict[str, Any]:
    if archive.getinfo(MANIFEST).file_size > LARGEST_MANIFEST:
        raise ArchiveError("its manifest is too large.")
    text = archive.read(MANIFEST)
    # First of all: without a right signature not even the JSON is parsed.
    if key is not None:
        _authenticate(text, archive.comment, key)
    manifest = read_json(text, MANIFEST)
    version = manifest["format"]
    if type(version) is not int or not 1 <= version <= FORMAT:
        raise ArchiveError(
            f"it has format {version}, but this version of locuscore reads up to {FORMAT}; "
            "install a newer locuscore."
        )
    return manifest


def _contents(
    archive: zipfile.ZipFile, key: bytes | None
) -> tuple[dict[str, Any], dict[str, bytes]]:
    manifest = _manifest(archive, key)
    listed = manifest["members"]
    # A member that is not listed has no digest, and no signature covers it.
    if set(listed) != set(archive.namelist()) - {MANIFEST}:
        raise ArchiveError("its members are not those its manifest lists.")
    members = {name: archive.read(name) for name in listed}
    for name, data in members.items():
        if hashlib.sha256(data).hexdigest() != listed[name]["sha256"]:
            raise ArchiveError(f"its member {name!r} is damaged: the digest differs.")
    return manifest, members
