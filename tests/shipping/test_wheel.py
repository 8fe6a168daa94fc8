"""The wheel: all that replview needs is in it, and it works from any folder."""

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.variables import ROOT

pytestmark = pytest.mark.slow

#: The places in the wheel of folders that lie at the top of a clone.
INSIDE = {"templates": "replview/_templates", "static": "replview/_static"}

#: Run where the wheel is installed, away from any clone.
LOOK = """
import django, decoder, replview
django.setup()
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.db.migrations.loader import MigrationLoader
from django.template.loader import get_template, render_to_string

call_command("check", verbosity=0)
assert "<html" in render_to_string("500.html")
assert finders.find("plotly/plotly.min.js"), "plotly's own script is not found"
assert MigrationLoader(None).graph.leaf_nodes("store"), "no migrations"
for path in (
    decoder.__file__,
    replview.__file__,
    get_template("base.html").origin.name,
    finders.find("css/ui/base.css"),
):
    print(path)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [found] = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel, and nothing that it needs, is installed."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    options = ["--no-deps", "--no-index", "--no-compile", "--target", str(folder)]
    subprocess.run([*pip, *options, str(wheel)], check=True, timeout=120)
    return folder


def files_below(folder: str) -> Iterator[tuple[str, Path]]:
    """Yield the project's files in a clone's folder: the path below it, and where the file is."""
    for path in sorted((ROOT / folder).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
            yield path.relative_to(ROOT / folder).as_posix(), path


@pytest.mark.parametrize("folder", ["templates", "static", "decoder", "replview"])
def test_the_wheel_holds_every_file_as_it_is(folder: str, wheel: Path) -> None:
    place = INSIDE.get(folder, folder)
    with zipfile.ZipFile(wheel) as packed:
        found = {name for name in packed.namelist() if name.startswith(f"{place}/")}
        other = {name for name in found if name.startswith(tuple(f"{p}/" for p in INSIDE.values()))}
        wanted = {f"{place}/{name}": path for name, path in files_below(folder)}
        assert (found if folder in INSIDE else found - other) == wanted.keys()
        assert [n for n, path in wanted.items() if packed.read(n) != path.read_bytes()] == []


def test_the_sdist_holds_what_a_wheel_is_built_from(built: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    for folder in ("decoder", "replview", "templates", "static"):
        assert {f"{folder}/{name}" for name, _ in files_below(folder)} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"} <= names
    assert not [name for name in names if name.startswith(("tests/", ".venv/"))]


def run(installed: Path, folder: Path, *words: str) -> str:
    """Run Python in an unrelated folder with the wheel's replview; return standard output."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(installed),
        "DJANGO_SETTINGS_MODULE": "replview.settings",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    said = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout


def test_the_command_runs_from_a_foreign_folder(installed: Path, tmp_path: Path) -> None:
    said = run(installed, tmp_path, str(installed / "bin" / "replview"), "help")
    for command in ("up", "demo", "source", "slot", "changes", "migrate"):
        assert f"\n  {command} " in said


def test_pages_and_static_files_come_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    places = run(installed, tmp_path, "-c", LOOK).splitlines()[-4:]
    assert [place for place in places if not place.startswith(str(installed))] == []
