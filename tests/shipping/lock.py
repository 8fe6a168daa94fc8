"""``make lock``: the exact packages of each environment, with their hashes, in ``requirements/``.

Each is resolved by uv for every Python and platform at once, and keeps the versions it has unless
``--upgrade`` is given. Its first line holds a digest of what was asked for, so that a test can tell
a lock that pyproject.toml has left behind. ``--sbom`` writes what ``make wheel`` puts beside the
wheel.
"""

import hashlib
import json
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "requirements"
#: Lock → what uv is to resolve. "bench" has all of "test", "spark" and "run", and comes first: the
#: others take their versions from it. Tools stand in an environment of their own.
WANTED: Final = {
    "bench": ["pyproject.toml", "--extra", "bench"],
    "test": ["pyproject.toml", "--extra", "test"],
    "spark": ["pyproject.toml", "--extra", "spark"],
    "run": ["pyproject.toml"],
    "build": ["--group", "pyproject.toml:build"],
    "tools": ["--group", "pyproject.toml:tools"],
}
_HOW: Final = [
    "--universal", "--python-version", "3.11", "--generate-hashes", "--no-header",
    "--no-emit-index-url", "--no-emit-find-links", "--annotation-style", "line", "--quiet",
]  # fmt: skip
_MARK: Final = "# pyproject.toml: sha256 "


def digest() -> str:
    """Return a digest of all requirements in pyproject.toml, independent of their layout."""
    told: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = told["project"]
    asked = [
        told["build-system"]["requires"], project["requires-python"], project["dependencies"],
        project["optional-dependencies"], told["dependency-groups"], told["tool"]["uv"],
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def stale() -> list[str]:
    """The locks that were made from another pyproject.toml."""
    mark = f"{_MARK}{digest()}\n"
    return [name for name in WANTED if not (LOCKS / f"{name}.lock").read_text().startswith(mark)]


def tool(name: str) -> Path:
    """A program of ``tools.lock``, in an environment that is made where it is missing. Raises
    ``subprocess.CalledProcessError`` with what pip said.
    """
    folder, lock = Path(sys.prefix) / "tools", LOCKS / "tools.lock"
    made = folder / "lock"
    if not made.exists() or made.read_bytes() != lock.read_bytes():
        venv.create(folder, with_pip=True, clear=True)
        words = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet",
                 "--disable-pip-version-check", "--require-hashes", "-r", str(lock)]  # fmt: skip
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=600)
        made.write_bytes(lock.read_bytes())
    return folder / "bin" / name


def write_sbom(folder: Path) -> Path:
    """Write the software bill of materials of the folder's wheel beside it, as CycloneDX: each
    package that it is run with, with its hashes. The same lock gives the same bytes; what does not
    follow CycloneDX's schema is a ``subprocess.CalledProcessError``.
    """
    [wheel] = folder.glob("*.whl")
    to = folder / f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json"
    words = [str(tool("cyclonedx-py")), "requirements", "requirements/run.lock", "-o", str(to),
             "--pyproject", "pyproject.toml", "--mc-type", "application", "--sv", "1.6",
             "--of", "JSON", "--output-reproducible"]  # fmt: skip
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=120)
    return to


def main() -> int:
    """Write the locks anew, or with ``--sbom dist`` that; the exit status is 0 then."""
    if sys.argv[1:2] == ["--sbom"]:
        print(write_sbom(Path(sys.argv[2]).resolve()))
        return 0
    uv, upgrade = tool("uv"), [word for word in sys.argv[1:] if word == "--upgrade"]
    for name, wanted in WANTED.items():
        lock = LOCKS / f"{name}.lock"
        same = [] if name in ("bench", "tools") else ["--constraint", "requirements/bench.lock"]
        words = [str(uv), "pip", "compile", *wanted, *same, *_HOW, *upgrade, "-o", str(lock)]
        subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        lock.write_text(f"{_MARK}{digest()}\n# Made by make lock.\n{lock.read_text()}")
        print(f"{lock.relative_to(ROOT)}: {lock.read_text().count('==')} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
