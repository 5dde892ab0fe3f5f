"""The Dockerfile, read line by line: there is no builder where the tests run.

`make check-deploy` has a linter's word on it, and the workflow builds it.
"""

import ast
import json
import re
import shlex
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"


def instructions(text):
    """Return (name, arguments) of each instruction, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def stages(text):
    """Split the instructions at each FROM."""
    found = []
    for name, arguments in instructions(text):
        if name == "FROM":
            found.append([])
        found[-1].append((name, arguments))
    return found


def only(stage, wanted):
    return [arguments for name, arguments in stage if name == wanted]


def environment(stage):
    pairs = (pair.split("=", 1) for line in only(stage, "ENV") for pair in shlex.split(line))
    return dict(pairs)


def copied(stage, arguments=None):
    """Sources of COPY that come from the repository, with the default of each ARG."""
    values = dict(argument.split("=", 1) for argument in only(stage, "ARG"))
    for line in only(stage, "COPY"):
        if "--from=" in line:
            continue
        *sources, _ = line.split()
        for source in sources:
            yield re.sub(r"\$\{(\w+)\}", lambda m: values[m.group(1)], source)


BUILD, FINAL = stages(DOCKERFILE.read_text(encoding="utf-8"))


def test_both_stages_stand_on_one_base_of_a_fixed_version():
    bases = {arguments.split()[0] for arguments in only(BUILD, "FROM") + only(FINAL, "FROM")}
    (base,) = bases
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base)


def test_the_last_user_is_not_root():
    user, group = only(FINAL, "USER")[-1].split(":")
    assert user == group
    assert user.isdigit()  # a cluster can tell from a number that it is not root
    assert int(user) >= 10_000
    assert any(f"--uid {user} " in line for line in only(FINAL, "RUN"))
    last = max(index for index, (name, _) in enumerate(FINAL) if name in ("RUN", "COPY"))
    assert ("USER", f"{user}:{group}") in FINAL[last:]


def test_everything_is_installed_with_its_hash_or_from_here():
    installs = [
        part
        for line in only(BUILD, "RUN") + only(FINAL, "RUN")
        for part in line.split("&&")
        if re.search(r"\bpip\b.*\b(install|wheel)\b", part)
    ]
    assert len(installs) == 4
    for part in installs:
        assert "--require-hashes" in part or {"--no-index", "--no-deps"} <= set(part.split())
        assert "--no-cache-dir" in part


def ignored():
    lines = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_what_is_copied_exists_and_reaches_the_builder():
    everything, *rules = ignored()
    assert everything == "*"
    let_in = [rule[1:] for rule in rules if rule.startswith("!")]
    sources = [*copied(BUILD), *copied(FINAL)]
    assert len(sources) == 6
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(PurePosixPath(source).match(rule) for rule in let_in), source


def test_there_is_no_secret_in_it():
    for stage in (BUILD, FINAL):
        names = {*environment(stage), *(line.split("=")[0] for line in only(stage, "ARG"))}
        assert not [name for name in names if re.search("KEY|TOKEN|SECRET|PASSWORD", name)]
    assert not [source for source in copied(BUILD) if re.search(r"key|\.env|secret", source)]


def test_the_health_check_asks_the_service_and_its_port_is_the_one_exposed():
    (check,) = only(FINAL, "HEALTHCHECK")
    program, flag, code = json.loads(check.split("CMD", 1)[1])
    assert (program, flag) == ("python", "-c")
    ast.parse(code)
    assert "/readyz" in code
    assert only(FINAL, "EXPOSE") == [environment(FINAL)["LOCUSCORE_PORT"]]


def test_signals_reach_the_service():
    """Without a shell between: SIGTERM would end that one, and requests with it."""
    assert json.loads(only(FINAL, "ENTRYPOINT")[0]) == ["locuscore"]
    assert json.loads(only(FINAL, "CMD")[0]) == ["serve"]


def test_a_bad_file_would_be_noticed():
    text = "FROM python:latest\n# no\nRUN pip install \\\n    x && echo\nUSER root\n"
    (stage,) = stages(text)
    assert stage == [
        ("FROM", "python:latest"),
        ("RUN", "pip install      x && echo"),
        ("USER", "root"),
    ]
