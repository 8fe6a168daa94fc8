"""What of exports this instance allows, and where one may be written: for most never outside of the
instance's folder.

``exports.allowed``
    whether anything may be exported at all (true).
``exports.root``
    the folder within which local targets stand (``exports`` in the data folder).
``exports.schemes``
    URL schemes that may be written to by those who may write elsewhere than there.

A path is followed through every symbolic link before it is judged, when it is asked for and again
when it is written: what it leads to counts, not how it is spelled.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import orjson
from django.conf import settings

from replview.access.rights import Role, Visitor, may
from replview.store import instance_settings
from replview.store.reachable import is_allowed
from replview.text.problem import CodedProblem

if TYPE_CHECKING:
    from replview.parquet.slices import Slice


DEFAULT_SCHEMES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hdfs")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_LONGEST = 1000
#: Options of pyarrow's file systems that name a server, and schemes whose host is a bucket.
_PLACES = ("endpoint_override", "blob_storage_authority", "dfs_storage_authority")
_BUCKETS = ("s3", "s3a", "gs", "gcs")
#: A server that takes longer does not answer; what asks it waits for minutes.
TRIAL_SECONDS = 20.0
#: Words of an address's query that carry secrets.
_SECRETS = re.compile(r"(?i)(secret|password|token|key|sig|signature)=")


class Refused(CodedProblem):
    """An export that is not to be; ``remedy`` says what to do instead."""

    code_of_all = "refused_target"

    def __str__(self) -> str:
        return self.cause


@dataclass(frozen=True, slots=True)
class Policy:
    allowed: bool
    root: Path
    schemes: tuple[str, ...]

    def check(self) -> None:
        """Raises ``Refused`` where exports are switched off."""
        if not self.allowed:
            raise Refused(
                "exports are switched off on this instance",
                "Whoever runs it may allow them: replview export --allow",
            )


def read_policy() -> Policy:
    """As chosen now: nothing is kept in memory."""
    schemes = instance_settings.read("exports.schemes", None)
    root = instance_settings.read("exports.root", None)
    return Policy(
        allowed=instance_settings.read("exports.allowed", True) is not False,
        root=Path(root) if isinstance(root, str) and root else Path(settings.DATA_DIR) / "exports",
        schemes=tuple(map(str, schemes)) if isinstance(schemes, list) else DEFAULT_SCHEMES,
    )


def target_of(text: str, policy: Policy, *, anywhere: bool, base: Path | None = None) -> str:
    """The absolute folder or the URL that ``text`` names. Raises ``Refused``.

    Relative paths stand under ``base``, else under the instance's folder. ``anywhere``: whoever
    asks may also write elsewhere.
    """
    text = text.strip()
    if not text:
        raise Refused("no target is named", f"Name a folder within {policy.root}, or a URL")
    if len(text) > _LONGEST or not text.isprintable():
        raise Refused("the target is no path and no URL", "Write a folder's name, or s3://…")
    scheme = _SCHEME.match(text)
    if scheme and scheme[1].lower() != "file":
        return _url(text, scheme[1].lower(), policy, anywhere=anywhere)
    parts = urlsplit(text) if scheme else None
    if parts is not None and parts.netloc not in ("", "localhost"):
        raise Refused(f"file://{parts.netloc} is another machine", "Write file:///folder")
    path = Path(unquote(parts.path) if parts is not None else text)
    if ".." in path.parts:
        raise Refused("the target has .. in it", "Name the folder itself")
    root = policy.root.resolve()
    found = ((base or root) / path).resolve()
    if not anywhere and not found.is_relative_to(root):
        raise Refused(
            f"only folders within {root} may be written to",
            "Name a folder relative to it; admins may choose others",
        )
    return str(found)


def check_again(target: str, policy: Policy, *, anywhere: bool) -> None:
    """Just before it is written: links and choices may be others now. Raises ``Refused``."""
    if target_of(target, policy, anywhere=anywhere) != target:
        raise Refused("the target leads elsewhere than when it was asked for", "Export again")


def _url(text: str, scheme: str, policy: Policy, *, anywhere: bool) -> str:
    if scheme not in policy.schemes:
        known = ", ".join(policy.schemes) or "none"
        raise Refused(f"{scheme}:// is not allowed as a target", f"Allowed: {known}, and folders")
    if not anywhere:
        raise Refused(
            "only an admin may choose a target outside of the instance's folder",
            f"Name a folder within {policy.root}",
        )
    parts = urlsplit(text)
    if "@" in parts.netloc and scheme not in ("abfs", "abfss"):
        raise Refused(
            "the target has a name or a password in it, and targets are recorded",
            "Give credentials in the worker's environment, as the store's own tools take them",
        )
    if _SECRETS.search(parts.query):
        raise Refused(
            "the target has a secret in it, and targets are recorded",
            "Give credentials in the worker's environment",
        )
    if not parts.netloc and not parts.path.strip("/"):
        raise Refused(f"{scheme}:// names no bucket", f"Write {scheme}://bucket/folder")
    if ".." in parts.path.split("/"):
        raise Refused("the target has .. in it", "Name the folder itself")
    allowed: Sequence[str] = settings.SOURCE_HOSTS
    for host in _hosts(parts, scheme) if allowed else ():
        if not is_allowed(host, allowed):
            raise Refused(
                f"the host {host[:100]} is not among those that this instance may connect to",
                f"Whoever runs it may allow it (REPLVIEW_SOURCE_HOSTS: {', '.join(allowed)})",
            )
    return text.rstrip("/")


def _hosts(parts: SplitResult, scheme: str) -> list[str]:
    """Where the address leads to by its own words: not by a bucket's name."""
    given = [value for name, value in parse_qsl(parts.query) if name in _PLACES]
    if scheme not in _BUCKETS:
        given.append(parts.netloc.rpartition("@")[2])
    try:
        return [urlsplit(each if "//" in each else f"//{each}").hostname or "" for each in given]
    except ValueError:
        raise Refused("the target names no host that could be", "Write it as host:port") from None


def default_target(part: "Slice") -> str:
    """A folder of its own within the instance's: slices that overlap do not go into one."""
    # Here alone: a worker that only follows jobs loads no pyarrow.
    from replview.parquet.writing.layout import encoded, slice_digest

    return f"{encoded(part.source)}-{encoded(part.slot)}-{slice_digest(part)[:8]}"


def may_choose_anywhere(user: Visitor) -> bool:
    """Whether somebody may write elsewhere than into the instance's folder: admins may."""
    return may(user, Role.ADMIN)


def try_target(target: str) -> None:
    """Write a small file there, read it back, delete it. Raises ``Refused``.

    In a process of its own: what a file system of elsewhere waits for cannot be ended otherwise.
    """
    command = [sys.executable, "-m", "replview.parquet.writing.trial", target]
    folder = Path(__file__).parents[2]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=TRIAL_SECONDS, check=False
        )
        problem = orjson.loads(done.stdout)
    except subprocess.TimeoutExpired:
        cause = f"it did not answer within {TRIAL_SECONDS:.0f} s"
        raise Refused(cause, "See whether it can be reached from here, or choose another") from None
    except orjson.JSONDecodeError:
        raise Refused("trying it ended without an answer", "Try again; see the log") from None
    if problem:
        raise Refused(problem["problem"], problem["remedy"])
