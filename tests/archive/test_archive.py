"""The container: what is refused before anything is read, and writing that is all or nothing."""

import io
import json
import os
import pickle
import signal
import stat
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives_for_tests import forge, members_of
from helpers import raises
from locuscore import ArchiveError
from locuscore._archive.container import (
    FORMAT,
    array_bytes,
    read_archive,
    read_array,
    read_manifest,
    write_archive,
)
from locuscore._shared.files import write_atomically

MEMBERS = {"scorer.json": b"{}", "parts/0.npy": array_bytes(np.arange(500.0))}


@pytest.fixture
def path(path):
    write_archive(path, {"card": "a card"}, MEMBERS)
    return path


def refused(path, match):
    """Assert that loading fails in one error, leaves nothing behind and allocates little."""
    before = sorted(os.listdir(path.parent))
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match=match) as caught:
            read_archive(path)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert sorted(os.listdir(path.parent)) == before
    assert "\n" not in str(caught.value)


def test_what_was_written_is_read(path):
    manifest, members = read_archive(path)
    assert members == MEMBERS
    assert manifest == read_manifest(path)
    assert manifest["format"] == FORMAT
    assert manifest["card"] == "a card"
    assert manifest["members"]["scorer.json"]["bytes"] == 2


def test_the_same_contents_give_the_same_file(path, tmp_path):
    write_archive(tmp_path / "y.locus", {"card": "a card"}, MEMBERS)
    assert (tmp_path / "y.locus").read_bytes() == path.read_bytes()


def test_a_file_that_is_not_there_is_just_that(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_archive(tmp_path / "none.locus")


@pytest.mark.parametrize("name", ["/tmp/x.json", "../x.json", "a/../../x.json", "C:\\x.json", "x"])
def test_names_that_lead_elsewhere_are_refused(path, name):
    forge(path, {name: b"{}"})
    refused(path, "unsafe name")


def test_a_second_member_of_the_same_name_is_refused(path):
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("scorer.json", b"[]")
    refused(path, "several members of one name")


def test_a_symbolic_link_is_refused(path):
    link = zipfile.ZipInfo("link.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    refused(path, "no plain file")


def test_a_folder_is_refused(path):
    with zipfile.ZipFile(path, "a") as archive:
        archive.mkdir("parts")
    refused(path, "no plain file")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_compression_is_refused(path, method):
    with zipfile.ZipFile(path, "a", method) as archive:
        archive.writestr("more.json", b" " * 10_000)
    refused(path, "compressed")


def ten_gigabytes():
    """A valid deflate stream of 10 GB of zeros in 10 MB."""
    packer = zlib.compressobj(wbits=-15)
    one = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return one * 10_240 + zlib.compressobj(wbits=-15).flush()


@pytest.mark.parametrize("claimed", [10 * 2**30, 100], ids=["honest", "lying"])
def test_a_bomb_of_ten_gigabytes_is_refused(path, claimed):
    data = ten_gigabytes()
    entry = zipfile.ZipInfo("bomb.json")
    entry.compress_type, entry.file_size, entry.compress_size = 8, claimed, len(data)
    entry.CRC = 0
    with zipfile.ZipFile(path, "a") as archive:
        archive.fp.seek(archive.start_dir)
        entry.header_offset = archive.fp.tell()
        archive.fp.write(entry.FileHeader(zip64=True) + data)
        archive.filelist.append(entry)
        archive.start_dir, archive._didModify = archive.fp.tell(), True
    refused(path, "compressed")


def test_stored_members_that_claim_more_than_the_file_are_refused(path):
    data = bytearray(path.read_bytes())
    start = data.index(b"PK\x01\x02")
    struct.pack_into("<II", data, start + 20, 2**31, 2**31)  # both sizes of the first entry
    path.write_bytes(data)
    refused(path, r"overlap|damaged")


def test_a_changed_member_is_noticed(path):
    members = members_of(path)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (members | {"scorer.json": b"[]"}).items():
            archive.writestr(name, data)
    refused(path, "digest differs")


@pytest.mark.parametrize("change", ["drop", "add"])
def test_members_must_be_those_of_the_manifest(path, change):
    members = members_of(path)
    if change == "drop":
        del members["scorer.json"]
    else:
        members["other.json"] = b"{}"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    refused(path, "not those its manifest lists")


@pytest.mark.parametrize("version", [FORMAT + 1, "2", None])
def test_a_later_format_says_what_to_install(path, version):
    forge(path, {}, {"format": version})
    refused(path, "install a newer locuscore")
    with raises(ArchiveError, "newer"):
        read_manifest(path)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"nonsense", b'{"format": 1}', b"[" * 10**5])
def test_a_manifest_that_is_none_is_refused(path, text):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", text)
    refused(path, "no archive of locuscore")


@pytest.mark.parametrize("content", [b"", b"PK", b"\x80\x04K\x01.", b"PK\x05\x06" + bytes(18)])
def test_a_file_that_is_no_zip_is_refused(path, content):
    path.write_bytes(content)
    refused(path, "no archive of locuscore")


# Arrays


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.array(["a", "bb"]),
        np.array(3.5),
        np.empty((0, 4)),
        np.array(["2024-01-01"], dtype="M8[us]"),
        np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    ],
)
def test_arrays_come_back(array):
    back = read_array(array_bytes(array))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert (back == array).all()


def test_objects_in_an_array_are_neither_written_nor_read():
    objects = np.array([{}], dtype=object)
    with pytest.raises(ValueError, match="allow_pickle"):
        array_bytes(objects)
    file = io.BytesIO()
    np.save(file, objects, allow_pickle=True)
    with raises(ArchiveError, "pickle"):
        read_array(file.getvalue())


@pytest.mark.parametrize("shape", ["(10000000000,)", "(3,)", "(-4,)", "(2, 2, 2)"])
def test_a_header_that_claims_another_size_allocates_nothing(shape):
    head = (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", 118)
        + f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    )
    with pytest.raises(ArchiveError, match="claims the shape"):
        read_array(head.ljust(127) + b"\n" + bytes(32))


def test_a_pickle_is_no_array(tmp_path):
    class Touch:
        def __reduce__(self):
            return Path.touch, (tmp_path / "executed",)

    for data in (pickle.dumps(Touch()), b"\x93NUMPY\x03\x00" + bytes(200)):
        with pytest.raises(ValueError, match=r".+"):
            read_array(data)
    assert not (tmp_path / "executed").exists()


# Damage


@given(st.data())
def test_a_damaged_file_is_refused_or_read_rightly(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damage") / "x.locus"
    write_archive(path, {"card": "a card"}, MEMBERS)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
    path.write_bytes(content[:cut])
    try:
        _, members = read_archive(path)
    except ArchiveError:
        return
    assert members == MEMBERS


# Writing


def failing_write(file):
    file.write(b"half")
    raise OSError(28, "No space left on device")


def test_a_failed_write_leaves_the_old_file_and_no_other(path):
    before = path.read_bytes()
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, failing_write)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_failed_flush_leaves_the_old_file_and_no_other(path, monkeypatch):
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_archive(path, {"card": "new"}, MEMBERS)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


FULL = """
import resource, sys
from locuscore._archive.container import write_archive
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_archive(sys.argv[1], {"card": "new"}, {"scorer.json": bytes(1_000_000)})
except OSError:
    sys.exit(3)
"""
KILLED = """
import os, signal, sys
from locuscore._shared.files import write_atomically
def write(file):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
write_atomically(sys.argv[1], write)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits on file sizes are POSIX")
@pytest.mark.parametrize(("script", "code"), [(FULL, 3), (KILLED, -9)], ids=["full", "killed"])
def test_a_file_that_cannot_be_finished_leaves_the_old_one(path, script, code):
    before = path.read_bytes()
    run = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert run.returncode == (code if code > 0 else -signal.SIGKILL)
    assert path.read_bytes() == before
    if code > 0:
        assert os.listdir(path.parent) == [path.name]


def test_a_link_to_an_archive_stays_a_link(path):
    link = path.with_name("current.locus")
    link.symlink_to(path.name)
    write_archive(link, {"card": "new"}, MEMBERS)
    assert link.is_symlink()
    assert read_manifest(path)["card"] == "new"


def test_a_new_file_has_the_usual_permissions(path):
    plain = path.with_name("plain")
    plain.write_text("x")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_the_manifest_is_plain_json(path):
    assert json.loads(members_of(path)["manifest.json"])["card"] == "a card"
