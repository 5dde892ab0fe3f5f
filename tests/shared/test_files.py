"""Who may read what is written, whatever the umask says."""

import os
import stat

import pytest

from locuscore._shared.files import not_for_all, write_atomically


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o022, 0o027, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def write(path):
    write_atomically(path, lambda file: file.write(b"new"))


def test_a_new_file_is_as_the_umask_says(tmp_path, umask):
    write(tmp_path / "x")
    assert mode(tmp_path / "x") == 0o666 & ~umask


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o664])
def test_a_file_that_is_replaced_keeps_its_permissions(kept, tmp_path, umask):
    """A private archive could be read by everybody once it was written again."""
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(kept)
    write(path)
    assert (path.read_bytes(), mode(path)) == (b"new", kept)


def test_it_is_private_before_anything_is_in_it(tmp_path, umask):
    path, seen = tmp_path / "x", []
    path.touch(0o600)

    def look(file):
        seen.extend(mode(one) for one in tmp_path.iterdir())

    write_atomically(path, look)
    assert seen == [0o600, 0o600]


def test_some_files_are_never_for_all(tmp_path, umask):
    with open(tmp_path / "x", "a", opener=not_for_all):
        pass
    assert mode(tmp_path / "x") == 0o660 & ~umask
