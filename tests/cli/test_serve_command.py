"""The command `serve`: an archive behind an address, the same numbers as in memory."""

import os
import re
import signal
import socket
import subprocess
import sys
from json import dumps, loads
from urllib.request import Request, urlopen

import numpy as np
import pytest

from archives_for_tests import rows, small_scorer
from helpers import LONGEST_WAIT, shown_block
from locuscore.__main__ import main

pytestmark = pytest.mark.extra


def command_line(path):
    return ["-m", "locuscore", "serve", str(path), "--port", "0"]


def block_of_the_docs(path):
    block = shown_block("http.md", "serve(")
    return ["-c", block.replace('"prices.locus", port=8000', f"{str(path)!r}, port=0")]


@pytest.mark.parametrize(
    ("arguments", "key"), [(command_line, "secret"), (block_of_the_docs, "...")]
)
def test_an_archive_is_served_until_told_to_stop(arguments, key, tmp_path):
    scorer, path = small_scorer(), tmp_path / "guard.locus"
    scorer.save(path)
    X, _ = rows(3, seed=5)
    command = [sys.executable, *arguments(path)]
    environment = os.environ | {"LOCUSCORE_API_KEY": key}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            log = iter(process.stderr.readline, "")
            address = next(m[0] for line in log if (m := re.search(r"http://[\d.]+:\d+", line)))
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
            body = dumps({"rows": X.tolist()}).encode()
            request = Request(f"{address}/score", body, headers)
            answer = loads(urlopen(request, timeout=LONGEST_WAIT).read())
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST_WAIT) in (0, -signal.SIGTERM)
    expected = scorer(X)["bound_0.1"]
    np.testing.assert_allclose([row["bound_0.1"] for row in answer["rows"]], expected, rtol=1e-9)


def test_what_cannot_be_served_is_said_in_one_line(tmp_path, capsys):
    assert main(["serve", str(tmp_path / "none.locus")]) == 1
    path = tmp_path / "guard.locus"
    small_scorer().save(path)
    assert main(["serve", str(path), "--host", "0.0.0.0"]) == 1
    first, second = capsys.readouterr().err.strip().splitlines()
    assert "there is no file" in first
    assert "API key" in second


def test_a_port_in_use_is_a_failure_like_any_other(tmp_path, capsys, monkeypatch):
    """It had the exit code of a certificate that accepts nothing."""
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)  # of this process
    path = tmp_path / "guard.locus"
    small_scorer().save(path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(path), "--port", str(port), "--quiet"]) == 1
    assert f"error: cannot listen on 127.0.0.1, port {port}" in capsys.readouterr().err


@pytest.fixture
def served(monkeypatch, tmp_path):
    """What `serve` would be called with, for an environment and options."""
    from locuscore import service

    path, calls = tmp_path / "guard.locus", []
    small_scorer().save(path)

    def record(*given, **options):
        calls.append((given, options))

    monkeypatch.setattr(service, "serve", record)

    def call(*options, **variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"LOCUSCORE_{name}", value)
        assert main(["serve", *map(str, options)]) == 0
        return calls[-1]

    return path, call


def test_every_option_may_stand_in_the_environment(served):
    path, call = served
    variables = {
        "ARCHIVE": str(path),
        "HOST": "0.0.0.0",
        "PORT": "9000",
        "API_KEY": "secret",
        "MAX_ROWS": "7",
        "TIMEOUT_SECONDS": "2.5",
        "ALLOW_HOST": "a.example b.example",
        "ALLOW_ANOTHER_SCHEMA": "true",
        "LOG_FORMAT": "json",
        "LOG_ROWS": "1",
        "STORE": "sqlite:///x.db",
        "AUDIT": "0.5",
        "LABELS_KEY": "labels",
    }
    (archive, host, port, settings), options = call(**variables)
    assert (archive, host, port) == (path, "0.0.0.0", 9000)
    assert (settings.max_rows, settings.timeout_seconds) == (7, 2.5)
    assert (settings.api_key, settings.ledger.labels_key) == ("secret", "labels")
    assert settings.hosts == ("a.example", "b.example")
    assert settings.allow_another_schema
    assert settings.log_rows
    assert settings.ledger.audit == 0.5
    assert options["log_format"] == "json"
    (_, _, port, settings), options = call("--port", 1, "--max-rows", 8, "--log-format", "text")
    assert (port, settings.max_rows, options["log_format"]) == (1, 8, "text")  # an option wins


def test_every_limit_of_the_settings_is_an_option(served):
    from dataclasses import fields

    from locuscore.service import Settings

    path, call = served
    (*_, settings), _ = call(path)
    assert settings == Settings()  # the defaults agree
    elsewhere = {"api_key", "archive_key", "hosts", "ledger"}
    limits = [part for part in fields(Settings) if part.name not in elsewhere]
    values = {int: "9", float: "9", bool: "true"}
    changed = {p.name.upper(): values.get(p.type, "keys.json") for p in limits}
    (*_, settings), _ = call(path, **changed)
    assert all(getattr(settings, part.name) != part.default for part in limits)


def test_a_certificate_and_its_key_go_together(served, capsys):
    path, _ = served
    assert main(["serve", str(path), "--tls-key", "key.pem"]) == 2
    assert "go together" in capsys.readouterr().err


def test_a_variable_has_the_name_of_its_option():
    """`--json` was LOCUSCORE_AS_JSON, and `--class` LOCUSCORE_CLASSES."""
    import typer

    from locuscore.cli._app import app

    options = typer.main.get_command(app).commands["serve"].loaded.params
    named = {max(part.opts, key=len): part.envvar for part in options if part.name != "help"}
    assert named.pop("archive") == "LOCUSCORE_ARCHIVE"
    assert {"--json", "--class", "--max-rows", "--store"} <= named.keys()
    for name, variable in named.items():
        assert variable == "LOCUSCORE_" + name.strip("-").replace("-", "_").upper()


def test_a_port_that_does_not_exist_is_refused(tmp_path, capsys):
    """It listened on another one, and said that it listened on this one."""
    path = tmp_path / "guard.locus"
    small_scorer().save(path)
    assert main(["serve", str(path), "--port", "99999"]) == 2
    assert "--port" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--keys", "--key-file", "--log-file"])
def test_a_file_that_is_not_there_is_named(option, tmp_path, capsys):
    path, none = tmp_path / "guard.locus", tmp_path / "none" / "file"
    small_scorer().save(path)
    assert main(["serve", str(path), option, str(none)]) == 1
    assert capsys.readouterr().err == f"error: there is no file {none}.\n"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("MAX_ROW", "MAX_ROWS"),
        ("KEYFILE", "KEY_FILE"),
        ("APIKEY", "API_KEY"),
        ("TIMEOUT", "TIMEOUT_SECONDS"),
        ("max_rows", "MAX_ROWS"),
    ],
)
def test_a_misspelt_variable_is_refused(wrong, right, served, capsys, monkeypatch):
    path, call = served
    monkeypatch.setenv(f"LOCUSCORE_{wrong}", "7")
    assert main(["serve", str(path)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert f"LOCUSCORE_{wrong} " in said
    assert f"LOCUSCORE_{right}?" in said
    assert main(["serve", "--help"]) == 0
    monkeypatch.delenv(f"LOCUSCORE_{wrong}")
    call(path)


def test_variables_of_others_with_our_prefix_are_left_alone(served):
    """Kubernetes sets them in every pod beside a service that is called locuscore."""
    path, call = served
    links = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT_8000_TCP")
    links += ("PORT_8000_TCP_ADDR", "PORT_8000_TCP_PORT", "PORT_8000_TCP_PROTO")
    call(path, **dict.fromkeys((*links, "BROWSER", "POSTGRES"), "x"))


@pytest.mark.parametrize("name", ["API_KEY", "KEYS", "KEY_FILE", "STORE", "MAX_ROWS"])
@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_variable_is_refused(name, value, served, capsys, monkeypatch):
    """An empty LOCUSCORE_KEY_FILE let archives in that nobody had signed."""
    monkeypatch.setenv(f"LOCUSCORE_{name}", value)
    assert main(["serve", str(served[0])]) == 2
    assert f"LOCUSCORE_{name} is empty" in capsys.readouterr().err
