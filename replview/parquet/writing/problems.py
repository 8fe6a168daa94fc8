"""Describe why a slice cannot be written, so that the reader can mend it.

No message holds values, addresses or secrets: a library's message is classified, not repeated.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from replview.text.problem import CodedProblem

_AGAIN = "then run it again: finished files are kept"
_NO_RIGHT = (
    "no permission to write there",
    "give this user the right to write, or choose another folder",
)
_NO_SPACE = ("no space is left there", f"make room or choose another folder, {_AGAIN}")
_BY_NUMBER = {
    errno.EACCES: _NO_RIGHT,
    errno.EPERM: _NO_RIGHT,
    errno.EROFS: (
        "the file system is read-only",
        "mount it for writing, or choose another folder",
    ),
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: (
        "the quota is used up there",
        f"make room or choose another folder, {_AGAIN}",
    ),
    errno.EFBIG: (
        "files may not grow that large there",
        f"raise the limit of file sizes (ulimit -f), {_AGAIN}",
    ),
    errno.ENOTDIR: ("a part of the path is a file", "choose a path of folders"),
    errno.EEXIST: ("a part of the path is a file", "choose a path of folders"),
    errno.EISDIR: ("a folder stands where a file should", "choose another folder"),
    errno.ENAMETOOLONG: ("the path is too long", "choose a shorter folder"),
    errno.ENOENT: ("the place does not exist", "create it, or check the address"),
    errno.EMFILE: ("too many files are open", "raise the limit of open files (ulimit -n)"),
    errno.EIO: ("the disk reports an error", "check the disk, or choose another folder"),
}
#: Words of the object stores' errors, in the order in which they are tried, and their meaning.
_BY_WORDS = (
    (
        ("no_such_bucket", "nosuchbucket", "bucket does not exist", "containernotfound",
         "specified container does not exist"),
        "the bucket or container does not exist",
        "create it, or check its name in the address",
    ),
    (
        ("invalid_access_key", "invalidaccesskey", "signature_does_not_match",
         "signaturedoesnotmatch", "unrecognizedclient", "invalid_client_token", "expiredtoken",
         "expired_token", "authenticationfailed", "invalid_grant"),
        "the object store does not accept the credentials",
        "check the credentials in the environment or its configuration files",
    ),
    (
        ("no credentials", "missing_authentication_token", "defaultazurecredential",
         "anonymous caller", "could not create a oauth2", "default credentials",
         "unable to locate credentials"),
        "no credentials for the object store were found",
        "put them into the environment, as its own tools read them (AWS_ACCESS_KEY_ID, "
        "GOOGLE_APPLICATION_CREDENTIALS, AZURE_CLIENT_ID …)",
    ),
    (
        ("access_denied", "accessdenied", "forbidden", "permission", "authorizationfailure",
         "not authorized"),
        "the object store refuses access",
        "give these credentials the right to write, read and delete there",
    ),
    (
        ("missingcontentlength", "http status 411", "functionality that is not implemented"),
        "the object store does not know the checksums that are sent with each part",
        "set AWS_REQUEST_CHECKSUM_CALCULATION=when_required in the environment of the one who "
        "writes",
    ),
    (
        ("libjvm", "libhdfs"),
        "HDFS needs Hadoop's client here",
        "install it and Java, and set HADOOP_HOME, JAVA_HOME and CLASSPATH "
        "(hadoop classpath --glob)",
    ),
    (
        ("network_connection", "could not connect", "connection refused", "timed out", "timeout",
         "could not resolve", "couldn't resolve", "name or service"),
        "the object store cannot be reached",
        "check the address, its region or endpoint, and the network",
    ),
    (("no space", "quota"), *_NO_SPACE),
    (
        ("mkdirs failed", "not a directory", "parentnotdirectory"),
        "the folder cannot be made",
        "choose a path of folders that the one who writes may write to",
    ),
)  # fmt: skip
_UNKNOWN = (
    "the target cannot be written",
    "check the address and the rights there; the job's log names the kind of error",
)


class TargetProblem(CodedProblem):
    """The slice cannot be written to the target; ``remedy`` says what to do."""

    code_of_all = "target"

    def __str__(self) -> str:
        return f"{self.cause}: {self.remedy}"


class Cancelled(Exception):
    """The export was cancelled."""


def problem_of(error: BaseException) -> TargetProblem:
    """Return the problem that an error of a file system means."""
    if isinstance(error, TargetProblem):
        return error
    known = _BY_NUMBER.get(getattr(error, "errno", None) or 0)
    if known is None:
        words = f"{type(error).__name__} {error}".lower()
        found = (
            (problem, remedy)
            for signs, problem, remedy in _BY_WORDS
            if any(sign in words for sign in signs)
        )
        known = next(found, _UNKNOWN)
    return TargetProblem(*known)


@contextmanager
def raising_problems() -> Iterator[None]:
    """Raise ``TargetProblem`` in place of a file system's own errors."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise problem_of(error) from error
