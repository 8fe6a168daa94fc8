"""Who keeps row versions or WAL on a source: what is open there, standbys, slots."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.utils.dateparse import parse_datetime

from replview.health.source_looks import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Something open on the source that keeps row versions, WAL, or both."""

    #: ``prepared``, ``running``, ``standby`` or ``slot``.
    kind: str
    name: str
    #: In transactions: how old its xid is (it pins slots too), and its snapshot.
    xid_age: int | None = None
    snapshot_age: int | None = None
    since: datetime | None = None
    detail: str = ""

    @property
    def oldest(self) -> int:
        """How far back vacuum must stop for it."""
        return max(self.xid_age or 0, self.snapshot_age or 0)


def open_on_source(look: Look) -> Iterator[Holder]:
    """Everything open on the source, in any of its databases."""
    for row in look.prepared or ():
        yield Holder(
            kind="prepared",
            name=row["gid"],
            xid_age=look.age_of(row["xid"]),
            since=parse_datetime(row["prepared_at"]),
            detail=row.get("database") or "",
        )
    for row in look.running or ():
        started = row.get("xact_started_at")
        yield Holder(
            kind="running",
            name=f"pid {row['pid']}",
            xid_age=look.age_of(row.get("xid")),
            snapshot_age=row.get("backend_xmin_age"),
            since=parse_datetime(started) if started else None,
            detail=row.get("application_name") or row.get("role") or "",
        )


def standbys(look: Look) -> Iterator[Holder]:
    """Standbys that feed back what they still read."""
    for row in look.holders.get("standbys") or ():
        age = row.get("backend_xmin_age") or row.get("slot_xmin_age")
        if age is not None:
            name = row.get("slot_name") or row.get("application_name") or f"pid {row['pid']}"
            yield Holder(kind="standby", name=name, snapshot_age=age)


def vacuum_holder(look: Look) -> Holder | None:
    """Who makes vacuum stop furthest back; None where nobody is known to."""
    slots = (
        Holder(kind="slot", name=name, snapshot_age=row["xmin_age"])
        for name, row in look.slots.items()
        if row.get("xmin_age") is not None and row.get("slot_type") != "physical"
    )
    known = [holder for holder in (*open_on_source(look), *standbys(look), *slots) if holder.oldest]
    return max(known, key=lambda holder: holder.oldest, default=None)
