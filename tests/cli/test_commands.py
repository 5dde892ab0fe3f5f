"""What all commands have in common: help, JSON, exit codes, errors in one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_for_tests import fails, run
from locuscore import rows_for_certificate, rows_for_coverage
from locuscore.__main__ import main

COMMANDS = ["demo", "fit", "certify", "score", "inspect", "report", "serve"]
PLANS = ["bound", "coverage", "certificate"]
WATCHES = ["log", "label", "status", "report", "export", "forget"]
SUBCOMMANDS = [*(["plan", p] for p in PLANS), *(["watch", w] for w in WATCHES)]


@pytest.mark.extra
@pytest.mark.parametrize("command", [*([c] for c in COMMANDS), *SUBCOMMANDS])
def test_help_is_short_and_has_an_example(command, capsys):
    assert main([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"locuscore {' '.join(command)}" in text.split("Example")[1]
    for option in ("--json", "--quiet", "--debug"):
        assert option in text or (command, option) == (["serve"], "--json")  # it has no result
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.extra
def test_help_lists_the_commands(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f" {name} " in text for name in [*COMMANDS, "plan", "watch"])
    assert main([]) == main(["plan"]) == main(["watch"]) == 2


@pytest.mark.extra
def test_the_list_says_of_each_command_what_its_own_help_says():
    from typer.main import get_command

    from locuscore.cli._app import app

    for name, listed in get_command(app).commands.items():
        assert (listed.loaded.help or "").split("\n\n")[0] == listed.help, name


@pytest.mark.extra
def test_plans(capsys):
    assert run(capsys, "plan", "bound", "--alpha", 0.05)["rows"] == 19
    said = run(capsys, "plan", "coverage", "--alpha", 0.1, "--within", 0.02)
    assert said["rows"] == rows_for_coverage(0.1, 0.02).rows
    options = ["--eta", 0.1, "--delta", 0.05, "--bad-rate", 0.05, "--acceptance", 0.7]
    said = run(capsys, "plan", "certificate", *options)
    assert said["rows"] == rows_for_certificate(0.1, 0.05, 0.05, 0.7).rows
    assert main(["plan", "bound"]) == 0
    assert capsys.readouterr().out.startswith("9 rows")
    assert main(["plan", "bound", "--quiet"]) == 0
    assert not capsys.readouterr().out
    assert "alpha" in fails(capsys, "plan", "bound", "--alpha", 3)


@pytest.mark.extra
def test_errors_can_be_json_or_have_a_traceback(capsys):
    assert main(["plan", "bound", "--alpha", "3", "--json"]) == 1
    out, err = capsys.readouterr()
    assert f"error: {json.loads(out)['error']}\n" == err
    assert main(["plan", "bound", "--alpha", "3", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.extra
def test_wrong_use_has_its_own_code(capsys):
    assert "No such command" in fails(capsys, "guess", code=2)
    assert "No such option" in fails(capsys, "plan", "bound", "--beta", 1, code=2)
    assert "locuscore plan bound --help" in fails(capsys, "plan", "bound", "--alpha", "x", code=2)


@pytest.mark.extra
def test_an_interrupt_is_no_traceback(monkeypatch, capsys):
    from locuscore.cli import _plan

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_plan, "rows_for_bound", interrupted)
    assert main(["plan", "bound"]) == 130
    assert not capsys.readouterr().err


@pytest.mark.extra
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["bound"], ["bound", "--json"]], ids=["text", "json"])
def test_a_result_that_cannot_be_printed_is_one_line_and_a_failure(arguments, unbuffered):
    """It was exit code 120, or two tracebacks."""
    command = [sys.executable, "-m", "locuscore", "plan", *arguments]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False
        )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "No space left" in line


@pytest.mark.parametrize("package", ["typer", "pyarrow"])
def test_the_missing_extra_is_named(package, monkeypatch, capsys):
    for name in ("typer", "rich", "pyarrow", "pandas"):
        if name != package:
            monkeypatch.setitem(sys.modules, name, sys)  # here, whatever is installed
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["fit"]) == 1
    assert f"{package} is not installed" in capsys.readouterr().err


def test_the_version_needs_no_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("locuscore ")


@pytest.mark.extra
@pytest.mark.parametrize(
    ("words", "completed"),
    [("locuscore wa", ["watch"]), ("locuscore watch la", ["label"]), ("locuscore score --keep", 2)],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(words, completed, shell):
    parts = words.split()
    told = {"COMP_WORDS": words, "COMP_CWORD": str(len(parts) - 1)}
    told |= {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    environment = os.environ | told | {"_LOCUSCORE_COMPLETE": f"complete_{shell}"}
    command = [sys.executable, "-m", "locuscore"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    expected = ["--keep", "--keep-all"] if completed == 2 else completed
    assert all(one in done.stdout for one in expected)
    assert "demo" not in done.stdout


@pytest.mark.extra
@pytest.mark.parametrize(
    ("name", "begun", "completed"),
    [("engine", "fo", ["forest"]), ("loss", "sq", ["squared"]), ("loss", "x", [])],
)
def test_shells_complete_the_names_that_an_option_takes(name, begun, completed):
    """They offered the files of the folder."""
    import typer

    from locuscore.cli._app import app

    command = typer.main.get_command(app).commands["fit"]
    context = command.make_context("fit", [], resilient_parsing=True)
    (option,) = [part for part in command.loaded.params if part.name == name]
    assert [found.value for found in option.shell_complete(context, begun)] == completed
