"""``make audit``: known vulnerabilities of all that is locked, tools too. Found ones fail; where
nobody can be asked (no package index, no advisory service) it says so and goes on.
"""

import json
import subprocess
import sys
from typing import Any

from tests.shipping.lock import LOCKS, tool

_SECONDS = 300
#: Looked at, and of no concern: identifier → why. Empty it as soon as it can be.
ACCEPTED: dict[str, str] = {}
#: The words of the tool when it reached no server.
_AWAY = (
    "ConnectionError", "Connection refused", "ConnectTimeout", "ReadTimeout", "timed out",
    "Max retries exceeded", "Failed to establish", "NameResolution", "name resolution",
    "ProxyError", "ServiceError", "Could not connect", "NewConnectionError", "503", "403 Client",
    "No matching distribution",
)  # fmt: skip


def main() -> int:
    """Exit status: 0 nothing known, or nobody to ask; 1 vulnerable; 2 the tool itself failed."""
    # "bench" has all of "test", "spark" and "run".
    files = [f"{LOCKS / name}.lock" for name in ("bench", "build", "tools")]
    locks = [word for file in files for word in ("-r", file)]
    try:
        words = [str(tool("pip-audit")), *locks, "--require-hashes", "--disable-pip", "-s", "osv",
                 "--format", "json", "--progress-spinner", "off", "--timeout", "20"]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.CalledProcessError as failed:
        return cannot("pip-audit cannot be installed", failed.stderr or failed.stdout)
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
        print(f"{len(found)} known vulnerabilities: raise the versions (make lock)")
        return 1
    print(f"no known vulnerability in {len(audited)} packages")
    return 0


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
