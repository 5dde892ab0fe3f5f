"""Packages that locuscore needs: declared, locked with hashes, old enough, and free to use."""

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.extra  # asks all packages of the extras about themselves

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# The extras that `make lock` names.
SERVED = {"cli", "lightgbm", "service", "watch"}

# Licences under which a user may ship the package beside a closed product.
ALLOWED = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "HPND", "ISC", "MIT", "MIT-0"),
    *("MIT-CMU", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib", "CC0-1.0", "BSL-1.0"),
    "Apache-2.0 WITH LLVM-exception",
}
# Packages that say something else, with what they say.
EXCEPTIONS = {
    # LGPL: used unchanged and from outside, which it allows; to be named in a product's notices.
    "psycopg": "LGPL-3.0-only",
    "psycopg-binary": "LGPL-3.0-only",
    "cons": "unknown",  # its file is the LGPL 3; it comes with the extra pymc alone
    "certifi": "MPL-2.0",  # a list of certificates; comes with mlflow
    # Apache, BSD or MIT by the file that they bring, without the field.
    "catboost": "Apache License, Version 2.0",
    "minikanren": "unknown",
    "multipledispatch": "BSD",
    "protobuf": "3-Clause BSD License",
    "skops": "unknown",
}


def pins(path):
    """Return name and version of every line that has one."""
    found = re.findall(r"^([\w.-]+)==([\w.+!]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


LOCK = ROOT / "deploy" / "requirements-service.txt"
LOCKS = [LOCK, ROOT / "deploy" / "requirements-build.txt"]


def needed(extras, environment=None):
    """Return all packages, however far down, that locuscore needs with these extras."""
    asked = PROJECT["dependencies"] + [
        line for extra in extras for line in PROJECT["optional-dependencies"][extra]
    ]
    todo, seen = [Requirement(line) for line in asked], set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            if name == "locuscore":
                lines = PROJECT["optional-dependencies"][extra] if extra else []
            else:
                lines = metadata.requires(name) or []
            below = (Requirement(line) for line in lines)
            there = default_environment() | (environment or {}) | {"extra": extra}
            todo += [item for item in below if not item.marker or item.marker.evaluate(there)]
    return {name for name, _ in seen} - {"locuscore"}


def test_the_lock_has_all_that_the_service_needs_and_nothing_else():
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    assert set(pins(LOCK)) == needed(SERVED, linux)


def test_the_extras_of_the_lock_are_those_of_the_makefile():
    (extras,) = re.findall(r"^EXTRAS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(extras.split()) == SERVED


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_has_the_versions_of_the_constraints_and_their_hashes(lock):
    constraints = pins(ROOT / "constraints.txt")
    assert pins(lock).items() <= constraints.items()
    packages = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").strip())
    assert len(packages) == len(pins(lock))
    for package in packages:
        first, *hashes = [line.removesuffix("\\").strip() for line in package.splitlines()]
        assert re.fullmatch(r"[\w.-]+==[\w.]+", first)
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes)


def test_the_oldest_versions_are_the_bounds_of_the_core():
    bounds = {}
    for line in PROJECT["dependencies"]:
        (bound,) = Requirement(line).specifier
        assert bound.operator == ">="
        bounds[canonicalize_name(Requirement(line).name)] = bound.version
    oldest = pins(ROOT / "constraints-oldest.txt")
    runners = {name: oldest.pop(name) for name in ("hypothesis", "pytest", "pytest-xdist")}
    assert runners.items() <= pins(ROOT / "constraints.txt").items()
    assert set(oldest) == set(bounds)
    for name, version in oldest.items():
        assert re.fullmatch(re.escape(bounds[name]) + r"(\.0)*", version), name


def test_every_extra_is_on_the_page_of_the_installation():
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    rows = "".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    ours = {"bench", "dev", "docs", "test"}
    assert set(re.findall(r"`(\w+)`", rows)) == set(PROJECT["optional-dependencies"]) - ours


def imported(path):
    """Top-level names that a file imports as soon as it is imported itself."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.split(".")[0]


def test_what_the_source_imports_is_declared():
    """Also what comes along with another package: that one may stop to bring it."""
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    declared = {
        canonicalize_name(Requirement(line).name) for line in [*PROJECT["dependencies"], *extras]
    }
    homes = {  # other names on the index; the last two are parts of the interfaces of these
        **{"mlflow": "mlflow-skinny", "sklearn": "scikit-learn", "xgboost": "xgboost-cpu"},
        **{"numba": "pymc-bart", "linear_operator": "gpytorch"},
    }
    for path in (ROOT / "src").rglob("*.py"):
        for name in set(imported(path)) - set(sys.stdlib_module_names) - {"locuscore"}:
            package = homes.get(name, canonicalize_name(name))
            assert package in declared, f"{path.name} imports {name}"


def licence(name):
    """Return what the package says: an expression if there is one, else what its fields mean."""
    about = metadata.metadata(name)
    if expression := about.get("License-Expression"):
        return expression
    titles = {
        "Apache Software License": "Apache-2.0",
        "BSD License": "BSD-3-Clause",
        "GNU Library or Lesser General Public License (LGPL)": "LGPL",
        "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
        "Historical Permission Notice and Disclaimer (HPND)": "HPND",
        "ISC License (ISCL)": "ISC",
        "MIT License": "MIT",
        "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
        "Python Software Foundation License": "PSF-2.0",
        "The Unlicense (Unlicense)": "Unlicense",
    }
    classifiers = [line for line in about.get_all("Classifier") or [] if "License ::" in line]
    ends = [line.split(" :: ")[-1] for line in classifiers]
    said = [titles.get(end, end) for end in ends if end != "OSI Approved"]
    return " AND ".join(said) if said else (about.get("License") or "unknown").splitlines()[0]


def is_allowed(expression):
    """Whether one may comply: any side of OR, all sides of AND."""
    plain = expression.replace("(", "").replace(")", "")
    choices = [re.split(r" AND ", choice) for choice in plain.split(" OR ")]
    return any(all(part.strip() in ALLOWED for part in choice) for choice in choices)


def test_every_package_of_the_extras_may_be_shipped():
    found = {name: licence(name) for name in needed(["all"])}
    assert len(found) > 50
    others = {name: said for name, said in found.items() if not is_allowed(said)}
    assert others == EXCEPTIONS


def test_a_licence_that_is_not_on_the_list_would_be_noticed():
    assert is_allowed("MIT")
    assert is_allowed("Apache-2.0 OR GPL-3.0-only")
    assert not is_allowed("MIT AND GPL-3.0-only")
    assert not is_allowed("unknown")
