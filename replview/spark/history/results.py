"""What a history job gives: rows, and whether they are the whole truth."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Result:
    """Rows, computed when they are asked for."""

    frame: "DataFrame"
    #: Whether nothing that was exported, or was not, can make the rows other than they were.
    complete: bool = True
    #: Why not.
    reasons: tuple[str, ...] = ()
    #: What else is worth saying of it: plain values.
    told: Mapping[str, Any] = field(default_factory=dict)
