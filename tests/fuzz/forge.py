"""Forged archives: members changed in the way of their format, with digests that fit.

Members are taken apart as far as their format goes, changed in one place and put together again, so
that parsers do not refuse them at once. Everything is drawn from one generator.
"""

import hashlib
import io
import json
import random
import stat
import warnings
import zipfile

from fuzz.arrays import mutate_array
from fuzz.json_values import mutate_json
from fuzz.text import mutate_text

MANIFEST = "manifest.json"


def flip_bytes(data, rng):
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    cut = rng.randrange(len(changed) + 1) if rng.random() < 0.2 else len(changed)
    return bytes(changed[:cut])


def mutate_member(name, data, rng):
    """Change one member in the way of its format."""
    if rng.random() < 0.04:
        return flip_bytes(data, rng)
    if name.endswith(".skops"):
        return mostly_plain_zip(mutate_some(read_zip(data), rng), rng)
    if name.endswith(".npy"):
        return mutate_array(data, rng)
    return (mutate_json if data[:1] == b"{" else mutate_text)(data, rng)


def mutate_some(members, rng):
    """Change one to three members, or put one in the place of another.

    Each format is as likely as the others, whatever the number of its members.
    """
    if rng.random() < 0.04:
        return members | {rng.choice(list(members)): members[rng.choice(list(members))]}
    changed = {}
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        ending = rng.choice(sorted({name.rsplit(".")[-1] for name in members}))
        name = rng.choice([name for name in members if name.endswith(ending)])
        changed[name] = mutate_member(name, members[name], rng)
    return members | changed


def read_zip(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_zip(members, odd=None, rng=None):
    """Write a zip; the member named `odd` has attributes or a companion that no honest one has."""
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, data in members.items():
            entry = zipfile.ZipInfo(name)
            if name == odd:
                kind = rng.choice([stat.S_IFLNK, stat.S_IFDIR, stat.S_IFREG, stat.S_IFIFO])
                entry.external_attr = kind << 16
                entry.compress_type = rng.choice([0, 8, 12])
                archive.writestr(rng.choice([name, "../x", "/x.npy", "extra.txt"]), data)
            archive.writestr(entry, data)
    return file.getvalue()


def mostly_plain_zip(members, rng):
    return write_zip(members, rng.choice(list(members)) if rng.random() < 0.025 else None, rng)


def signed(members):
    """Members with the digests in their manifest made right."""
    manifest = json.loads(members[MANIFEST])
    manifest["members"] = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
        if name != MANIFEST
    }
    return members | {MANIFEST: json.dumps(manifest).encode()}


def forge(archive, seed):
    """Return the forged archive that a text stands for."""
    rng = random.Random(seed)
    members = read_zip(archive)
    manifest = {MANIFEST: members.pop(MANIFEST)}
    members = signed(manifest | mutate_some(members, rng))
    if rng.random() < 0.04:
        members[MANIFEST] = mutate_json(members[MANIFEST], rng)
    forged = mostly_plain_zip(members, rng)
    return flip_bytes(forged, rng) if rng.random() < 0.02 else forged
