"""The subject of kinds that measure lakes."""

from typing import Any

from replview.features.alerts.measured import Measured
from replview.store.models import Lake


def measured_lake(lake: Lake, value: float | None, **fields: Any) -> Measured:
    """Return the value of a lake; its source decides who may see it."""
    return Measured(
        subject=f"lake:{lake.pk}",
        value=value,
        name=f"Lake {lake}",
        source_id=lake.slot.source_id if lake.slot else None,
        **fields,
    )
