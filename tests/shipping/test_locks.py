"""requirements/*.lock: exact, hashed, of this pyproject.toml, and all that is installed."""

import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement

from tests.shipping import lock
from tests.shipping.lock import LOCKS, ROOT, WANTED

#: Package, version, marker, hashes.
_ENTRY = re.compile(
    r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;]+)(?: ; ([^\\]+))? \\\n"
    r"((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    re.MULTILINE,
)


def entries(name: str) -> list[tuple[str, str, str, str]]:
    return _ENTRY.findall((LOCKS / f"{name}.lock").read_text())


def test_every_lock_is_of_this_pyproject() -> None:
    assert lock.stale() == [], "run make lock"
    assert {path.stem for path in LOCKS.iterdir()} == set(WANTED)


def test_a_changed_dependency_makes_every_lock_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = (ROOT / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(told.replace('"orjson~=3.11"', '"orjson~=3.12"'))
    monkeypatch.setattr(lock, "ROOT", tmp_path)
    assert lock.stale() == list(WANTED)


def test_a_lock_has_hashes_of_every_package_and_names_no_index(subtests: pytest.Subtests) -> None:
    for name in WANTED:
        with subtests.test(name):
            told = (LOCKS / f"{name}.lock").read_text()
            requirements = [
                line for line in told.splitlines() if re.match(r"\S", line) and line[0] != "#"
            ]
            assert len(entries(name)) == len(requirements) > 0
            assert re.findall(r"://|--(?:extra-)?index-url|--find-links|--trusted-host", told) == []


def test_all_locks_but_the_tools_have_the_same_versions() -> None:
    whole = {entry[:2] for entry in entries("bench")}
    for name in ("test", "spark", "run", "build"):
        assert {entry[:2] for entry in entries(name)} <= whole, name


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_what_pyproject_asks_for_is_locked_for_each_python_and_platform(
    python: str, machine: str
) -> None:
    environment = {
        **default_environment(), "python_version": python, "python_full_version": f"{python}.9",
        "platform_machine": machine, "sys_platform": "linux", "platform_system": "Linux",
    }  # fmt: skip
    locked = {
        package: version
        for package, version, marker, _ in entries("run")
        if not marker or Marker(marker).evaluate(environment)
    }
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]:
        requirement = Requirement(line)
        assert locked[requirement.name.lower()] in requirement.specifier


def test_what_is_installed_here_is_what_is_locked() -> None:
    environment = default_environment()
    for package, locked, marker, _ in (*entries("test"), *entries("build")):
        if not marker or Marker(marker).evaluate(environment):
            assert version(package) == locked, package


def test_make_installs_nothing_but_from_locks_with_hashes() -> None:
    told = (ROOT / "Makefile").read_text()
    calls = re.findall(r"\$\(PIP_INSTALL\) (.+?)(?: &&|;)", told)
    assert calls == [
        "--require-hashes -r requirements/build.lock",
        "--require-hashes -r requirements/$(1).lock",
        "--no-deps -e .",
    ]
    assert "--no-build-isolation" in told


@pytest.mark.slow
def test_the_bill_of_materials_names_each_locked_package_with_its_hashes(tmp_path: Path) -> None:
    (tmp_path / "replview-0.1.0-py3-none-any.whl").touch()
    found = json.loads(lock.write_sbom(tmp_path).read_text())
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert found["metadata"]["component"]["name"] == "replview"
    told = {
        (one["name"], one["version"], one["purl"].partition("?")[0]): sorted(
            a_hash["content"]
            for reference in one["externalReferences"]
            for a_hash in reference.get("hashes", [])
        )
        for one in found["components"]
    }
    assert told == {
        (package, version, f"pkg:pypi/{package}@{version}"): sorted(
            re.findall(r"sha256:(\w+)", hashes)
        )
        for package, version, _, hashes in entries("run")
    }
