"""Variables, options and routes that deploy/ and its page name are those of `locuscore serve`."""

import asyncio
import re
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("starlette")
pytestmark = pytest.mark.extra

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for path in [*(ROOT / "deploy").rglob("*"), ROOT / "docs" / "deploy.md"]
    if path.is_file() and not path.name.startswith("requirements-")
)
VARIABLE = re.compile(r"\bLOCUSCORE_[A-Z_]+\b")


def serve_command():
    """Return the parameters of `serve`, and the context in which they look for their variables."""
    import typer

    from locuscore.cli._app import app

    command = typer.main.get_command(app).commands["serve"]
    context = command.make_context("serve", [], resilient_parsing=True)
    return command.loaded.params, context


def is_read(variable, monkeypatch):
    """Whether a parameter takes its value from this variable, or the command does so itself."""
    from locuscore.cli._environment import SECRETS

    parameters, context = serve_command()
    with monkeypatch.context() as patched:
        patched.setenv(variable, "x")
        found = [part for part in parameters if part.resolve_envvar_value(context) == "x"]
    return len(found) == 1 or variable in SECRETS


def named(text):
    return set(VARIABLE.findall(text))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_variables_exist(path, monkeypatch):
    for variable in named(path.read_text(encoding="utf-8")):
        assert is_read(variable, monkeypatch), variable


def test_variables_are_found_and_a_wrong_one_would_be_noticed(monkeypatch):
    found = {path.name for path in FILES if named(path.read_text(encoding="utf-8"))}
    assert {"Dockerfile", "deployment.yaml", "locuscore.env", "deploy.md"} <= found
    (wrong,) = named("LOCUSCORE_ARCHIVES=x")
    assert not is_read(wrong, monkeypatch)


def test_options_on_the_page_exist():
    text = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"`(--[a-z-]+)", text))
    assert {"--max-rows", "--key-file"} <= shown
    others = {"--require-hashes", "--strict"}  # of pip and of a linter
    parameters, _ = serve_command()
    assert shown - others <= {name for part in parameters for name in part.opts}


def test_routes_that_are_probed_need_no_key_and_answer():
    import httpx

    from archives_for_tests import small_scorer
    from locuscore.service import Settings, create_app

    probed = set()
    for path in FILES:
        probed |= set(re.findall(r"(?:path: |\})(/\w+z)\b", path.read_text(encoding="utf-8")))
    assert probed == {"/livez", "/readyz"}
    app = create_app(small_scorer(), Settings(api_key="a key of sixteen"))

    async def ask():
        here = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=here, base_url="http://localhost") as client:
            return [(await client.get(path)).status_code for path in sorted(probed)]

    assert asyncio.run(ask()) == [200, 200]


def test_the_example_of_keys_is_read_by_the_service(tmp_path):
    from locuscore.service._keys import read_keys

    yaml = pytest.importorskip("yaml")
    text = (ROOT / "deploy" / "kubernetes" / "secret.example.yaml").read_text(encoding="utf-8")
    path = tmp_path / "keys.json"
    path.write_text(yaml.safe_load(text)["stringData"]["keys.json"], encoding="utf-8")
    found = {holder.name: set(holder.roles) for holder in read_keys(path).values()}
    assert found == {"website": {"score"}, "prometheus": {"metrics"}, "release": {"reload"}}
