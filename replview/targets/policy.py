"""Decide whether this instance may export, and to which targets.

``exports.allowed``
    whether anything may be exported at all (true).
``exports.root``
    the folder that contains local targets (``exports`` in the data folder).
``exports.schemes``
    URL schemes for accounts that may write outside that folder.

A path is resolved through all symbolic links before it is checked, when it is requested and again
when it is written.
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
from replview.text.parsing import has_secret
from replview.text.problem import CodedProblem

if TYPE_CHECKING:
    from replview.parquet.slices import Slice


DEFAULT_SCHEMES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hdfs")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_LONGEST = 1000
#: Options of pyarrow's file systems that name a server, and schemes whose host is a bucket.
_PLACES = ("endpoint_override", "blob_storage_authority", "dfs_storage_authority")
_BUCKETS = ("s3", "s3a", "gs", "gcs")
#: Seconds after which a target is taken not to answer.
TRIAL_SECONDS = 20.0


class Refused(CodedProblem):
    """An export or a target that is refused; ``remedy`` has the alternative."""

    code_of_all = "refused_target"

    def __str__(self) -> str:
        return self.cause


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of exports."""

    allowed: bool
    root: Path
    schemes: tuple[str, ...]

    def check(self) -> None:
        """Raise ``Refused`` if exports are switched off."""
        if not self.allowed:
            raise Refused(
                "exports are switched off on this instance",
                "Ask the administrator of its server to allow them: replview export --allow",
            )


def read_policy() -> Policy:
    """Read the current settings of exports."""
    schemes = instance_settings.read("exports.schemes", None)
    root = instance_settings.read("exports.root", None)
    return Policy(
        allowed=instance_settings.read("exports.allowed", True) is not False,
        root=Path(root) if isinstance(root, str) and root else Path(settings.DATA_DIR) / "exports",
        schemes=tuple(map(str, schemes)) if isinstance(schemes, list) else DEFAULT_SCHEMES,
    )


def target_of(text: str, policy: Policy, *, anywhere: bool, base: Path | None = None) -> str:
    """Return the absolute folder or the URL that ``text`` names. Raises ``Refused``.

    Relative paths are below ``base``, else below the instance's folder. ``anywhere`` permits
    targets outside that folder.
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
        raise Refused(
            f"file://{parts.netloc} names another machine", "Write file:///folder (three slashes)"
        )
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
    """Check a target again before writing, since links and settings may have changed."""
    if target_of(target, policy, anywhere=anywhere) != target:
        raise Refused(
            "the target now leads to another place than when the export was created", "Export again"
        )


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
    if has_secret(parts.query):
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
                f"this instance may not connect to the host {host[:100]}",
                "Ask the administrator of its server to add the host to REPLVIEW_SOURCE_HOSTS "
                f"(now: {', '.join(allowed)})",
            )
    return text.rstrip("/")


def _hosts(parts: SplitResult, scheme: str) -> list[str]:
    """Return the hosts that the URL names, without names of buckets."""
    given = [value for name, value in parse_qsl(parts.query) if name in _PLACES]
    if scheme not in _BUCKETS:
        given.append(parts.netloc.rpartition("@")[2])
    try:
        return [urlsplit(each if "//" in each else f"//{each}").hostname or "" for each in given]
    except ValueError:
        raise Refused("the target names no host that could be", "Write it as host:port") from None


def default_target(part: "Slice") -> str:
    """Return a folder name for the slice, so that overlapping slices do not share one."""
    # Import here, so that a worker that only follows jobs does not load pyarrow.
    from replview.parquet.writing.layout import encoded, slice_digest

    return f"{encoded(part.source)}-{encoded(part.slot)}-{slice_digest(part)[:8]}"


def may_choose_anywhere(user: Visitor) -> bool:
    """Return whether an account may write outside the instance's folder: admins may."""
    return may(user, Role.ADMIN)


def try_target(target: str) -> None:
    """Write a small file to the target, read it back, delete it. Raises ``Refused``.

    This runs in a process of its own, because a call that hangs in a file system cannot be ended
    otherwise.
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
        raise Refused(
            cause, "Check that this machine can reach it, or choose another target"
        ) from None
    except orjson.JSONDecodeError:
        raise Refused("the test of the target gave no result", "Try again; see the log") from None
    if problem:
        raise Refused(problem["problem"], problem["remedy"])
