"""Signed archives: who has no key cannot change anything that is read."""

import hmac
import json
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives_for_tests import assert_same_scores, forge, members_of, rows, small_scorer
from helpers import raises
from locuscore import ArchiveError, Scorer
from locuscore._archive import container
from locuscore._archive.container import (
    array_bytes,
    is_signed,
    read_archive,
    read_manifest,
    write_archive,
)
from locuscore._archive.manifest import IN_THE_MANIFEST

KEY, OTHER = b"0123456789abcdef" * 2, b"x" * 32
MEMBERS = {"scorer.json": b"{}", "parts/0.npy": array_bytes(np.arange(50.0))}


@pytest.fixture
def path(path):
    write_archive(path, {"card": "a card"}, MEMBERS, KEY)
    return path


def comment_of(path):
    with zipfile.ZipFile(path) as archive:
        return archive.comment


def refused(path, match, key=KEY):
    for read in (read_archive, read_manifest):
        with pytest.raises(ArchiveError, match=match) as caught:
            read(path, key)
        assert "\n" not in str(caught.value)


# The code


def test_the_code_is_that_of_the_manifest_as_it_is_written(path):
    expected = hmac.new(KEY, members_of(path)["manifest.json"], "sha256").hexdigest()
    assert comment_of(path) == expected.encode()
    assert is_signed(path)
    manifest, members = read_archive(path, KEY)
    assert members == MEMBERS
    assert manifest == read_manifest(path, KEY) == read_manifest(path)


def test_another_key_is_refused(path):
    refused(path, "not that of the given key", OTHER)


def test_a_key_refuses_what_is_not_signed(path):
    write_archive(path, {"card": "a card"}, MEMBERS)
    assert not is_signed(path)
    refused(path, "it is not signed, and a key was given")
    assert read_archive(path)[1] == MEMBERS


def test_digests_that_fit_do_not_help_a_forger(path):
    code = comment_of(path)
    forge(path, {"scorer.json": b"[]"})
    refused(path, "it is not signed")
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = code
    refused(path, "not that of the given key")
    assert read_archive(path)[1]["scorer.json"] == b"[]"  # without a key nobody notices


def test_a_blank_in_the_manifest_is_a_change(path):
    members, code = members_of(path), comment_of(path)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data + b" " if name == "manifest.json" else data)
        archive.comment = code
    refused(path, "not that of the given key")
    assert read_archive(path)[1] == MEMBERS


def test_nothing_is_parsed_before_the_code_is_right(path, monkeypatch):
    forge(path, {})

    def parsed(*_):
        raise AssertionError("parsed")

    monkeypatch.setattr(container.json, "loads", parsed)
    refused(path, "it is not signed")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", b"no JSON at all")
        archive.comment = b"0" * 64
    refused(path, "not that of the given key")


def test_codes_are_compared_in_constant_time(path, monkeypatch):
    compared = []
    monkeypatch.setattr(container.hmac, "compare_digest", lambda a, b: compared.append((a, b)))
    refused(path, "not that of the given key")
    assert compared[0] == (comment_of(path), comment_of(path))


# The key


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_one_newline_at_the_end_of_a_key_is_ignored(path, end):
    assert read_archive(path, KEY + end)[1] == MEMBERS
    write_archive(path, {"card": "a card"}, MEMBERS, KEY + end)
    assert read_archive(path, KEY)[1] == MEMBERS


@pytest.mark.parametrize("key", [KEY + b"\n\n", KEY + b"\r", KEY + b" ", b"\n" + KEY])
def test_everything_else_belongs_to_the_key(path, key):
    refused(path, "not that of the given key", key)
    write_archive(path, {"card": "a card"}, MEMBERS, key)
    assert read_archive(path, key)[1] == MEMBERS
    refused(path, "not that of the given key", KEY)


@pytest.mark.parametrize("key", [b"", b"secret", KEY[:31], KEY[:31] + b"\n", KEY[:31] + b"\r\n"])
def test_a_short_key_is_refused(path, key):
    before = path.read_bytes()
    for use in (
        lambda: read_archive(path, key),
        lambda: write_archive(path, {"card": "new"}, MEMBERS, key),
    ):
        with raises(ValueError, "32 bytes") as caught:
            use()
        assert not isinstance(caught.value, ArchiveError)
    assert path.read_bytes() == before


@pytest.mark.parametrize("key", ["0" * 64, 5, bytearray(64)])
def test_a_key_is_of_bytes(path, key):
    with raises(TypeError, "key", "bytes"):
        read_archive(path, key)


# What no digest covers


def with_prefix(data):
    return b"#!/bin/sh\necho something else\n" + data


def with_bytes_after_the_end(data):
    return data + b"more\n"


def with_bytes_before_the_directory(data):
    """Somebody else's member lies in the file, though not in the table of contents."""
    start = data.rindex(b"PK\x05\x06")
    size, offset = struct.unpack_from("<II", data, start + 12)
    hidden = zipfile.ZipInfo("scorer.json")
    hidden.CRC, hidden.file_size, hidden.compress_size = 0, 2, 2
    hidden = hidden.FileHeader() + b"[]"
    end = bytearray(data[start:])
    struct.pack_into("<I", end, 16, offset + len(hidden))
    return data[:offset] + hidden + data[offset : offset + size] + bytes(end)


def with_extra_fields(data):
    """An unknown field in each entry of the table of contents."""
    field, start = struct.pack("<HH", 0x7777, 4) + b"more", data.rindex(b"PK\x05\x06")
    (offset,) = struct.unpack_from("<I", data, start + 16)
    entries, at = b"", offset
    while at < start:
        name, extra, comment = struct.unpack_from("<HHH", data, at + 28)
        entry = bytearray(data[at : at + 46 + name + extra + comment])
        struct.pack_into("<H", entry, 30, extra + len(field))
        entries += bytes(entry[: 46 + name]) + field + bytes(entry[46 + name :])
        at += 46 + name + extra + comment
    end = bytearray(data[start:])
    struct.pack_into("<I", end, 12, len(entries))
    return data[:offset] + entries + bytes(end)


def with_another_method_in_front_of_a_member(data):
    changed = bytearray(data)
    struct.pack_into("<H", changed, data.index(b"PK\x03\x04") + 8, zipfile.ZIP_DEFLATED)
    return bytes(changed)


@pytest.mark.parametrize(
    "change",
    [
        with_prefix,
        with_bytes_after_the_end,
        with_bytes_before_the_directory,
        with_extra_fields,
        with_another_method_in_front_of_a_member,
    ],
)
def test_bytes_that_nobody_lists_are_not_read(path, change):
    manifest = read_manifest(path)
    data = path.read_bytes()
    path.write_bytes(change(data))
    assert path.read_bytes() != data
    assert read_archive(path, KEY) == (manifest, MEMBERS)
    assert read_manifest(path, KEY) == manifest


def test_a_second_table_of_contents_is_held_against_the_first_code(path):
    forged = path.with_name("forged.locus")
    write_archive(forged, {"card": "another card"}, MEMBERS)
    path.write_bytes(path.read_bytes() + forged.read_bytes())
    refused(path, "it is not signed")
    write_archive(forged, {"card": "another card"}, MEMBERS, OTHER)
    path.write_bytes(path.read_bytes() + forged.read_bytes())
    refused(path, "not that of the given key")


@pytest.mark.parametrize("name", ["other.json", "signature.txt", "manifest.txt"])
def test_a_member_that_is_not_listed_is_refused(path, name):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"{}")
    with raises(ArchiveError, "manifest lists"):
        read_archive(path, KEY)


@given(st.data())
def test_a_changed_file_is_refused_or_read_as_it_was(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("changed") / "x.locus"
    write_archive(path, {"card": "a card"}, MEMBERS, KEY)
    manifest, content = read_manifest(path), bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        found = read_archive(path, KEY)
    except ArchiveError:
        return
    assert found == (manifest, MEMBERS)


# The scorer


@pytest.mark.extra
def test_a_scorer_is_signed_and_authenticated(tmp_path):
    scorer, path = small_scorer(), tmp_path / "x.locus"
    scorer.save(path, key=KEY)
    batch = rows(20, seed=1)[0]
    assert_same_scores(scorer, Scorer.load(path, key=KEY), batch)
    assert_same_scores(scorer, Scorer.load(path), batch)
    with raises(ArchiveError, "given key"):
        Scorer.load(path, key=OTHER)
    Scorer.load(path, key=KEY).save(path, key=OTHER)  # a new key
    assert_same_scores(scorer, Scorer.load(path, key=OTHER), batch)
    with raises(ArchiveError, "given key"):
        Scorer.load(path, key=KEY)
    scorer.save(path)
    with raises(ArchiveError, "not signed"):
        Scorer.load(path, key=KEY)


@pytest.mark.extra
@pytest.mark.parametrize("name", list(IN_THE_MANIFEST))
@pytest.mark.parametrize("value", ["missing", None, 1.5])
def test_a_manifest_without_one_of_its_parts_is_refused(path, name, value):
    small_scorer().save(path)
    members = members_of(path)
    manifest = json.loads(members.pop("manifest.json"))
    manifest.pop(name)
    if value != "missing":
        manifest[name] = value
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in {"manifest.json": json.dumps(manifest), **members}.items():
            archive.writestr(member, data)
    with raises(ArchiveError, "manifest", repr(name)):
        Scorer.load(path)


@pytest.mark.extra
def test_a_manifest_that_does_not_name_scikit_learn_is_refused(path):
    small_scorer().save(path)
    forge(path, {}, {"written_by": {"locuscore": "0.1.0"}})
    with raises(ArchiveError, "manifest", "which scikit-learn"):
        Scorer.load(path)
