"""`--key-file`: what is written is signed, and what is read must be."""

import re

import pytest

from archives_for_tests import forge
from cli_for_tests import fails, homes, run, write
from helpers import raises
from locuscore import ArchiveError, Scorer
from locuscore.__main__ import main

pytestmark = pytest.mark.extra

KEY = "0123456789abcdef" * 4


@pytest.fixture
def folder(tmp_path):
    """Rows, a key file, and an archive signed with it."""
    (tmp_path / "k").write_text(f"{KEY}\n")
    (tmp_path / "other").write_text("f" * 64)
    write(homes(150), tmp_path / "rows.csv")
    return tmp_path


def fit(folder, *more):
    options = ["-t", "price", "--prediction", "quoted", "--drop", "id", "--engine", "scale"]
    return ["fit", folder / "rows.csv", *options, "-o", folder / "x.locus", *more]


def commands(folder):
    """Every command that reads an archive, but `serve`."""
    archive, rows = folder / "x.locus", folder / "rows.csv"
    certified = ["--tau", 1.0, "--eta", 0.5, "-o", folder / "new.locus"]
    return {
        "score": [archive, rows, "-o", folder / "scored.csv"],
        "certify": [archive, write(homes(200, seed=1), folder / "fresh.csv"), *certified],
        "report": [archive, rows, "-o", folder / "page.html"],
        "inspect": [archive],
    }


def test_every_command_signs_and_checks(folder, capsys):
    run(capsys, *fit(folder, "--key-file", folder / "k"))
    for name, arguments in commands(folder).items():
        run(capsys, name, *arguments, "--key-file", folder / "k")
        said = fails(capsys, name, *arguments, "--key-file", folder / "other")
        assert "not that of the given key" in said
    assert Scorer.load(folder / "new.locus", key=KEY.encode()).rule is not None
    with raises(ArchiveError, "given key"):
        Scorer.load(folder / "new.locus", key=b"f" * 64)


def test_a_key_refuses_what_is_not_signed(folder, capsys):
    run(capsys, *fit(folder))
    key = ["--key-file", folder / "k"]
    for name, arguments in commands(folder).items():
        assert "it is not signed" in fails(capsys, name, *arguments, *key)
    assert "it is not signed" in fails(capsys, "serve", folder / "x.locus", "--port", 0, *key)
    assert not (folder / "new.locus").exists()
    assert not (folder / "scored.csv").exists()


def test_a_file_that_holds_no_key_is_refused_before_the_work(folder, capsys, monkeypatch):
    monkeypatch.setattr("locuscore.Locus.fit", None)
    (folder / "short").write_bytes(b"a" * 31 + b"\n")
    said = fails(capsys, *fit(folder, "--key-file", folder / "short"))
    assert "short holds no key" in said
    assert "at least 32 bytes" in said
    assert "there is no file" in fails(capsys, *fit(folder, "--key-file", folder / "none"))


def test_the_key_is_never_overwritten(folder, capsys):
    said = fails(capsys, *fit(folder, "--key-file", folder / "x.locus"), code=2)
    assert "another file" in said


def text_of(capsys, *arguments):
    assert main([*map(str, arguments)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_inspect_says_what_it_has_verified(folder, capsys):
    archive, key = folder / "x.locus", ["--key-file", folder / "k"]
    run(capsys, *fit(folder))
    no_forgery = "the digests guard against damage, not against forgery"
    said = text_of(capsys, "inspect", archive)
    assert re.search(
        r"members \d+, intact: each has its digest signature none; " + no_forgery, said
    )
    assert "authenticated" not in said
    run(capsys, *fit(folder, *key))
    said = text_of(capsys, "inspect", archive)
    assert f"which cannot be checked without its key; {no_forgery}" in said
    assert "authenticated" not in said
    said = text_of(capsys, "inspect", archive, *key)
    assert "signature authenticated with the given key" in said
    assert no_forgery not in said
    figures = run(capsys, "inspect", archive, *key)
    assert figures["is_signed"]
    assert figures["is_authenticated"]
    assert not run(capsys, "inspect", archive)["is_authenticated"]


def test_a_manifest_cannot_speak_for_inspect(folder, capsys):
    archive = folder / "x.locus"
    run(capsys, *fit(folder))
    lies = {"is_authenticated": True, "is_signed": True, "bytes": 1, "archive": "y"}
    forge(archive, {}, lies | {"card": "a \x1b[2Acard", "signals": "\x1b]0;title\x07"})
    said = run(capsys, "inspect", archive)
    assert not said["is_authenticated"]
    assert not said["is_signed"]
    assert said["archive"] == str(archive)
    assert main(["inspect", str(archive)]) == 0
    shown = capsys.readouterr().out
    assert "a \ufffd[2Acard" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("part", ["written_by", "card", "features", "signals"])
def test_inspect_says_what_a_manifest_lacks(part, folder, capsys):
    archive = folder / "x.locus"
    run(capsys, *fit(folder))
    forge(archive, {}, {part: None})
    assert f"its manifest has no {part!r}" in fails(capsys, "inspect", archive)
    forge(archive, {}, {part: {} if part == "written_by" else "", "features": [{}]})
    assert archive.name in fails(capsys, "inspect", archive)


def test_a_served_archive_is_checked_by_its_key(folder, capsys, monkeypatch):
    from locuscore import service

    served = []
    monkeypatch.setattr(service, "serve", lambda *given, **_: served.append(given))
    run(capsys, *fit(folder, "--key-file", folder / "k"))
    assert main(["serve", str(folder / "x.locus"), "--key-file", str(folder / "k")]) == 0
    assert served[0][3].archive_key == f"{KEY}\n".encode()


@pytest.mark.parametrize("command", ["certify", "recalibrate"])
def test_a_signature_does_not_get_lost_unnoticed(command, folder, capsys):
    key = ["--key-file", folder / "k"]
    run(capsys, *fit(folder, *key))
    arguments = [folder / "x.locus", write(homes(200, seed=1), folder / "fresh.csv")]
    arguments += ["-o", folder / "new.locus"]
    arguments += ["--tau", 1.0, "--eta", 0.5] if command == "certify" else []
    for given, warns in ((key, False), ([], True)):
        assert main([*map(str, [command, *arguments, *given])]) == 0
        err = capsys.readouterr().err
        assert ("is signed, and the new archive will not be" in err) == warns
        assert ("--key-file" in err) == warns
    with raises(ArchiveError, "it is not signed"):
        Scorer.load(folder / "new.locus", key=KEY.encode())
