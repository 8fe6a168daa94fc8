"""What of exports this instance allows, and where to.

``exports.allowed``
    whether anything may be taken out at all (true).
``exports.root``
    the folder within which local targets stand (``exports`` in the data folder).
``exports.schemes``
    URL schemes that may be written to by those who may write elsewhere than there.
"""

from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from replview.store import instance_settings

DEFAULT_SCHEMES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hdfs")


class Refused(Exception):
    """An export that is not to be; ``remedy`` says what to do instead."""

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause)
        self.cause, self.remedy = cause, remedy


@dataclass(frozen=True, slots=True)
class Policy:
    """The choices in force."""

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
        schemes=tuple(str(one) for one in schemes)
        if isinstance(schemes, list)
        else DEFAULT_SCHEMES,
    )
