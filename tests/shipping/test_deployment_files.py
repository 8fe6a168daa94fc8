"""The image, compose.yaml and the systemd units: every command and variable in them is ours."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from replview.management.commands.up import Command
from replview.runtime.programs import KINDS
from tests.shipping.lock import LOCKS
from tests.support.variables import ROOT, variables_of_the_code

UNITS = ROOT / "docs" / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
#: A receiver may need this long to store and confirm what it holds.
LONGEST_STOP_SECONDS = 5


def parsed(words: list[str]) -> dict[str, Any]:
    """The options of ``replview up …``; the parser refuses, with SystemExit, what is not ours."""
    assert words[0] == "up"
    return vars(Command().create_parser("replview", "up").parse_args(words[1:]))


def seconds(text: str) -> int:
    """``30s`` and ``2m`` as seconds."""
    number, unit = re.fullmatch(r"(\d+)(s|m|min)", text).groups()  # type: ignore[union-attr]
    return int(number) * (1 if unit == "s" else 60)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return found


def ours(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: s for name, s in compose["services"].items() if s["image"] == "replview"}


def test_compose_runs_each_process_once_with_a_command_of_ours(compose: dict[str, Any]) -> None:
    commands = [parsed(service["command"]) for service in ours(compose).values()]
    assert sorted(options["only"] for options in commands) == sorted(KINDS)
    assert {service["build"]["dockerfile"] for service in ours(compose).values()} == {
        "Containerfile"
    }


def test_compose_names_variables_that_are_read(compose: dict[str, Any]) -> None:
    for service in ours(compose).values():
        assert service["environment"].keys() - variables_of_the_code().keys() == set()


#: A tag, and the digest of the image that it named when it was looked up.
_PINNED = re.compile(r"(\S+:\S*\d\S*)@sha256:[0-9a-f]{64}")


def test_every_image_of_compose_has_a_digest_and_can_be_named_by_another(
    compose: dict[str, Any],
) -> None:
    images = [s["image"] for s in compose["services"].values() if s["image"] != "replview"]
    images += [service["build"]["args"]["BASE"] for service in ours(compose).values()]
    docs = (ROOT / "docs" / "deploy.md").read_text()
    for image in images:
        given = re.fullmatch(r"\$\{(REPLVIEW_\w+_IMAGE):-(\S+)\}", image)
        assert given is not None, image
        assert _PINNED.fullmatch(given[2]), image
        assert f"{given[1]}=$(digest {given[2].split(':')[0]}:" in docs


def test_compose_declares_what_its_services_use(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert set(service.get("secrets", [])) <= compose["secrets"].keys()
        assert {v.split(":")[0] for v in service.get("volumes", [])} <= compose["volumes"].keys()
        assert set(service.get("depends_on", {})) <= compose["services"].keys()
        for value in map(str, service.get("environment", {}).values()):
            if value.startswith("/run/secrets/"):
                assert value.removeprefix("/run/secrets/") in service["secrets"]


def test_compose_restarts_and_gives_time_to_stop(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert service["restart"] == "unless-stopped"
    for service in [*ours(compose).values(), compose["services"]["store"]]:
        assert seconds(service["stop_grace_period"]) > LONGEST_STOP_SECONDS


def test_no_secret_stands_in_a_file(compose: dict[str, Any]) -> None:
    assert all(secret["file"].startswith("secrets/") for secret in compose["secrets"].values())
    for path in (ROOT / "compose.yaml", ROOT / "Containerfile", *UNITS.iterdir()):
        # Files that hold secrets are named; no variable has one as its value.
        kept = re.findall(r"(?:SECRET_KEY|STORE_URL|REDIS_URL|PASSWORD)\s*[:=]", path.read_text())
        assert kept == [], path.name
    assert "/secrets/" in (ROOT / ".gitignore").read_text().split()


def instructions() -> list[tuple[str, str]]:
    """The Containerfile's, a line each."""
    text = re.sub(r"\\\n", " ", (ROOT / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]


def test_the_image_is_pinned_and_does_not_run_as_root(compose: dict[str, Any]) -> None:
    found = instructions()
    assert {rest.split()[0] for word, rest in found if word == "FROM"} == {"${BASE}"}
    [base] = [rest.removeprefix("BASE=") for word, rest in found if rest.startswith("BASE=")]
    assert _PINNED.fullmatch(base)
    for service in ours(compose).values():
        assert service["build"]["args"]["BASE"] == f"${{REPLVIEW_BASE_IMAGE:-{base}}}"
    [user] = [rest for word, rest in found if word == "USER"]
    assert int(user) > 0
    assert f"--uid {user} " in next(rest for word, rest in found if "useradd" in rest)
    assert "/healthz" in next(rest for word, rest in found if word == "HEALTHCHECK")


def test_the_image_runs_a_command_of_ours_with_variables_that_are_read() -> None:
    found = dict(instructions())
    assert yaml.safe_load(found["ENTRYPOINT"]) == ["replview"]
    assert parsed(yaml.safe_load(found["CMD"]))["only"] == "web"
    named = set(re.findall(r"\b(REPLVIEW_[A-Z_]+)=", (ROOT / "Containerfile").read_text()))
    assert named - variables_of_the_code().keys() == set()


def test_the_image_takes_only_files_whose_hashes_are_locked() -> None:
    step = next(rest for word, rest in instructions() if word == "RUN" and "pip" in rest)
    for call in re.findall(r"/pip [^&]+", step):
        assert "--require-hashes" in call or "--no-deps" in call, call
    assert "--no-index" in step.rpartition("/pip ")[2]
    assert all((LOCKS / f"{name}.lock").exists() for name in ("build", "run", "spark"))


def test_java_is_configured_though_the_slim_base_has_no_folder_for_manuals() -> None:
    step = next(rest for word, rest in instructions() if word == "RUN" and "openjdk" in rest)
    assert step.index("mkdir -p /usr/share/man/man1") < step.index("openjdk")


def test_the_image_is_built_from_files_that_are_there_and_not_ignored() -> None:
    let_in = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY"]
    for path in (path for paths in copied for path in paths if not path.startswith("--from")):
        if not path.startswith("/"):
            assert (ROOT / path).exists()
            assert path in let_in


def unit(path: Path) -> list[tuple[str, str]]:
    """Return the settings of a unit file, in order; a name may come several times."""
    lines = [line for line in path.read_text().splitlines() if re.match(r"[A-Z]\w+=", line)]
    return [(line.partition("=")[0], line.partition("=")[2]) for line in lines]


def test_a_unit_runs_a_command_of_ours_and_gives_it_time_to_stop(subtests: pytest.Subtests) -> None:
    for path in SERVICES:
        with subtests.test(path.name):
            found = dict(unit(path))
            program, *words = shlex.split(found["ExecStart"].replace("%i", "1"))
            assert program.endswith("/replview")
            assert parsed(words)["only"] in path.name.replace("receiver@", "receivers")
            assert seconds(found["TimeoutStopSec"]) > LONGEST_STOP_SECONDS
            assert (found["User"], found["NoNewPrivileges"], found["ProtectSystem"]) == (
                "replview",
                "yes",
                "strict",
            )


def test_the_units_cover_every_process_and_the_target_wants_them() -> None:
    kinds = {parsed(shlex.split(dict(unit(path))["ExecStart"])[1:])["only"] for path in SERVICES}
    assert kinds == set(KINDS)
    wanted = dict(unit(UNITS / "replview.target"))["Wants"].replace("@1", "@").split()
    assert sorted(wanted) == [path.name for path in SERVICES]


def test_the_units_name_variables_that_are_read() -> None:
    text = "\n".join(path.read_text() for path in UNITS.iterdir())
    named = set(re.findall(r"^(?:Environment=)?(REPLVIEW_[A-Z_]+)=", text, re.MULTILINE))
    assert named
    assert named - variables_of_the_code().keys() == set()


def test_the_command_beside_the_units_has_what_they_have() -> None:
    text = (UNITS / "replview").read_text()
    subprocess.run(["sh", "-n", UNITS / "replview"], check=True)
    for name, value in unit(UNITS / "replview-web.service"):
        if name in ("EnvironmentFile", "LoadCredential"):
            assert f"--property={name}={value}" in text
        if name == "Environment":
            assert f"--setenv={value.partition('=')[0]}=" in text


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for path in [*SERVICES, UNITS / "replview.target"]:
        # systemd-analyze checks that the program exists.
        text = path.read_text().replace("/opt/replview/bin/replview", sys.executable)
        (tmp_path / path.name).write_text(text)
    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(p) for p in tmp_path.iterdir())],
        capture_output=True,
        text=True,
    )
    assert (said.returncode, said.stderr) == (0, "")
