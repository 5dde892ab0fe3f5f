"""Workflows of the code host: the least they may do, and nothing that can change under them."""

import re
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.extra

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FLOWS = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in FILES}
JOBS = {(flow, name): job for flow, text in FLOWS.items() for name, job in text["jobs"].items()}


def steps(job, key):
    return [step[key] for step in job["steps"] if key in step]


@pytest.mark.parametrize("flow", FLOWS)
def test_a_workflow_may_read_and_no_more_unless_a_job_says_so(flow):
    assert FLOWS[flow]["permissions"] in ({}, {"contents": "read"})


def test_only_two_jobs_may_write_and_these_run_nothing_of_ours():
    """What could sign in the project's name sees neither the source nor its dependencies."""
    writers = {
        key: job for key, job in JOBS.items() if "write" in job.get("permissions", {}).values()
    }
    assert set(writers) == {("release", "attest"), ("release", "publish")}
    for job in writers.values():
        assert "contents" not in job["permissions"]
        assert not [used for used in steps(job, "uses") if "checkout" in used]
        assert not [line for line in steps(job, "run") if re.search("make|pip|python", line)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_and_name_their_version(path):
    used = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    assert used
    for line in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)


def test_one_action_has_one_version_everywhere():
    used = {use for job in JOBS.values() for use in steps(job, "uses")}
    assert len({use.split("@")[0] for use in used}) == len(used)


def test_publishing_needs_no_password_and_an_environment():
    publish = FLOWS["release"]["jobs"]["publish"]
    assert publish["environment"] == "pypi"
    assert publish["permissions"] == {"id-token": "write"}
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    (upload,) = [step for step in publish["steps"] if "pypi-publish" in step.get("uses", "")]
    assert upload["with"] == {"attestations": True}


def test_every_python_that_is_promised_is_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = {
        line.rsplit(" ", 1)[1] for line in project["classifiers"] if ":: Python :: 3." in line
    }
    jobs = FLOWS["ci"]["jobs"]
    (first,) = [step["with"] for step in jobs["all"]["steps"] if "python" in str(step.get("with"))]
    tried = {first["python-version"], *jobs["pythons"]["strategy"]["matrix"]["python"]}
    assert tried == promised
    assert project["requires-python"] == ">=" + min(promised, key=lambda text: int(text[2:]))


def test_targets_that_workflows_call_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    called = {
        target
        for job in JOBS.values()
        for line in steps(job, "run")
        if line.startswith("make ")
        for target in line.split()[1:]
    }
    assert {"test-core", "test-oldest", "check-deploy", "dist", "sbom"} <= called
    for target in called:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
