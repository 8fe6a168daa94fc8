"""``make audit``: known vulnerabilities of what is installed. Found ones fail; where nobody can be
asked (no package index, no advisory service) it says so and goes on.

pip-audit lives in an environment of its own, so that what it needs is not what we ship.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_TOOL = "pip-audit~=2.9"
_SECONDS = 300
#: Looked at, and of no concern: identifier → why. Empty it as soon as it can be.
ACCEPTED: dict[str, str] = {}
#: What it says where it reached nobody.
_AWAY = (
    "ConnectionError", "Connection refused", "ConnectTimeout", "ReadTimeout", "timed out",
    "Max retries exceeded", "Failed to establish", "NameResolution", "name resolution",
    "ProxyError", "ServiceError", "Could not connect", "NewConnectionError", "503", "403 Client",
    "No matching distribution",
)  # fmt: skip


def main() -> int:
    """Exit status: 0 nothing known, or nobody to ask; 1 vulnerable; 2 the tool itself failed."""
    program = Path(sys.prefix) / "audit" / "bin" / "pip-audit"
    if not program.exists() and (why := _install(program.parents[1])):
        return cannot(f"{_TOOL} cannot be installed", why)
    words = [str(program), "-s", "osv", "--format", "json", "--progress-spinner", "off",
             "--timeout", "20", "--local"]  # fmt: skip
    # Of this environment, not of its own.
    environment = {**os.environ, "PIPAPI_PYTHON_LOCATION": sys.executable}
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_SECONDS, env=environment
        )
    except subprocess.TimeoutExpired:
        return cannot("the advisory service did not answer in time", "timed out")
    try:
        told = json.loads(done.stdout)
    except ValueError:
        return cannot("the advisory service cannot be reached", done.stderr)
    return judge(told)


def judge(told: dict[str, Any]) -> int:
    """Say what was found."""
    audited = [package for package in told["dependencies"] if "vulns" in package]
    found = [
        (package, vulnerability)
        for package in audited
        for vulnerability in package["vulns"]
        if not {vulnerability["id"], *vulnerability.get("aliases", [])} & set(ACCEPTED)
    ]
    for package, vulnerability in found:
        mended = ", ".join(vulnerability.get("fix_versions", [])) or "no version yet"
        print(f"{package['name']} {package['version']}: {vulnerability['id']}, mended in {mended}")
    if found:
        print(f"{len(found)} known vulnerabilities: raise the versions in pyproject.toml")
        return 1
    print(f"no known vulnerability in {len(audited)} packages")
    return 0


def _install(folder: Path) -> str:
    """Why it cannot be; empty: it is there."""
    python = folder / "bin" / "python"
    for words in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", _TOOL],
    ):
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS)
        if done.returncode:
            return done.stderr or done.stdout or "it says nothing"
    return ""


def cannot(what: str, said: str) -> int:
    """Why nothing was audited: nobody could be asked, or the tool is called in a wrong way."""
    last = said.strip().splitlines()[-1:] or [""]
    if any(word in said for word in _AWAY):
        print(f"NOT AUDITED: {what}. {last[0][:200]}")
        return 0
    print(f"{what}: {said.strip()[-2000:]}")
    return 2


if __name__ == "__main__":
    sys.exit(main())
