"""Queries for open transactions, ended ones, and aborted subtransactions.

Every query is limited to the rows that are drawn, or uses a partial index with few rows. None
counts changes or ended transactions.
"""

import datetime as dt
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.db.models import Case, Count, F, Min, Q, QuerySet, When
from django.db.models.functions import Coalesce

from decoder.scalars import LSN
from replview.store.django_session import rows
from replview.store.models import AbortedSubtransaction, Relation, Slot, Transaction
from replview.text.parsing import whole_number

OPEN_STATES = ("receiving", "streaming", "prepared")
ENDED_STATES = ("committed", "aborted", "rolled back", "skipped", "unknown")
#: Maximum number of tables whose names match a searched text.
_TABLES_LIMIT = 500

#: When the transaction was prepared, or for others, when it was first received.
SINCE = Case(
    When(state="prepared", then=Coalesce("prepared_at", "received_at")), default=F("received_at")
)
# Prepared transactions match in any state: they may have ended since the source was sampled.
_RECORDED = """
    SELECT gid, xid, id, incarnation_id FROM transaction
     WHERE incarnation_id = ANY(%s)
       AND (gid = ANY(%s) OR state IN ('receiving', 'streaming') AND xid = ANY(%s))
     ORDER BY id
"""
# Changes whenever the page's content may change; costs a few index lookups.
_REVISION = """
    SELECT (SELECT max(stored_at) FROM transaction
             WHERE state IN ('receiving', 'streaming', 'prepared')),
           (SELECT count(*) FROM transaction WHERE state IN ('receiving', 'streaming', 'prepared')),
           (SELECT stored_at FROM transaction
             WHERE (streamed OR gid IS NOT NULL)
               AND state IN ('committed', 'aborted', 'rolled back', 'skipped', 'unknown')
               AND stored_at IS NOT NULL
             ORDER BY stored_at DESC LIMIT 1),
           (SELECT max(looked_at) FROM source_look),
           (SELECT count(*) || '.' || coalesce(sum(epoch), 0) FROM slot)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWanted:
    """The transactions to read; an empty or None filter excludes nothing."""

    #: Incarnations of slots.
    incarnations: Collection[int]
    #: ``streaming`` or ``prepared``.
    state: str = ""
    #: Only transactions that have been in their state since this time or longer.
    until: dt.datetime | None = None
    #: Text to find in the gid, the xid or a table's name.
    text: str = ""

    def open(self) -> "QuerySet[Transaction]":
        """Return the open transactions, each with ``since``."""
        of_state = {"streaming": ("receiving", "streaming"), "prepared": ("prepared",)}
        states = of_state.get(self.state, OPEN_STATES)
        # The condition on the state lets PostgreSQL use the partial index of open transactions.
        found = Transaction.objects.filter(
            state__in=states, incarnation_id__in=list(self.incarnations)
        ).annotate(since=SINCE)
        # Hide the copy that the SQL interface is receiving again: the old row is still shown.
        found = found.exclude(state="receiving", streamed=True)
        if self.until is not None:
            found = found.filter(since__lte=self.until)
        return found.filter(self._says()) if self.text else found

    def ended(self) -> "QuerySet[Transaction]":
        """Return ended transactions that were streamed or two-phase, the newest first."""
        found = Transaction.objects.filter(
            Q(streamed=True) | Q(gid__isnull=False),
            state__in=ENDED_STATES,
            incarnation_id__in=list(self.incarnations),
            stored_at__isnull=False,
        )
        if self.state == "streaming":
            found = found.filter(streamed=True)
        elif self.state == "prepared":
            found = found.filter(gid__isnull=False)
        found = found.filter(self._says()) if self.text else found
        return found.order_by("-stored_at", "-id")

    def _says(self) -> Q:
        found = Q(gid__icontains=self.text)
        if (xid := whole_number(self.text, digits=10)) is not None:
            found |= Q(xid=xid)
        schema, _, table = self.text.rpartition(".")
        named = Q(table__icontains=table) & (Q(schema__iendswith=schema) if schema else Q())
        tables = Relation.objects.filter(named).values_list("pk", flat=True)[:_TABLES_LIMIT]
        keys = [str(pk) for pk in tables]
        return found | Q(relations__has_any_keys=keys) if keys else found


@dataclass(frozen=True, slots=True)
class OpenTotal:
    """The number of open transactions of one incarnation in one state."""

    incarnation_id: int
    state: str
    count: int
    #: When the oldest of them entered that state.
    oldest: dt.datetime
    #: LSN of the first change of the earliest transaction; None if unknown.
    first_lsn: LSN | None


def open_totals(wanted: OpenWanted) -> list[OpenTotal]:
    """Return the numbers of all open transactions, by incarnation and state."""
    rows = (
        wanted.open()
        .values("incarnation_id", "state")
        .annotate(count=Count("id"), oldest=Min("since"), first=Min("first_lsn"))
        .values_list("incarnation_id", "state", "count", "oldest", "first")
        .order_by()
    )
    return [OpenTotal(*row) for row in rows]


def open_rows(wanted: OpenWanted, *, prepared: bool, limit: int) -> list[Transaction]:
    """Return open transactions, either prepared or not, the oldest first."""
    is_prepared = Q(state="prepared")
    found = wanted.open().filter(is_prepared if prepared else ~is_prepared)
    return list(found.order_by(SINCE, "id")[:limit])


def ended_rows(
    wanted: OpenWanted,
    *,
    limit: int,
    since: dt.datetime | None = None,
    before: tuple[dt.datetime, int] | None = None,
) -> list[Transaction]:
    """Return ended transactions stored after ``since`` and before ``before`` (stored_at, id)."""
    found = wanted.ended()
    if since is not None:
        found = found.filter(stored_at__gt=since)
    if before is not None:
        found = found.filter(
            Q(stored_at__lt=before[0]) | Q(stored_at=before[0], id__lt=before[1]),
            stored_at__lte=before[0],
        )
    return list(found[:limit])


@dataclass(frozen=True, slots=True)
class Aborted:
    """The aborted subtransactions of one transaction."""

    subtransactions: int
    #: True when all their changes are counted; some are counted when the transaction ends.
    counted: bool


def aborted_of(rows: Iterable[Transaction]) -> dict[int, Aborted]:
    """Return aborted subtransactions by transaction, without tombstones of whole transactions."""
    ids = [row.pk for row in rows if row.aborted_changes]
    if not ids:
        return {}
    whole = Q(subxid=F("whole_xid"))
    found = (
        AbortedSubtransaction.objects.filter(transaction_id__in=ids)
        .annotate(
            whole_xid=Case(
                *(When(transaction_id=row.pk, then=row.xid) for row in rows if row.xid), default=0
            )
        )
        .exclude(whole)
        .values("transaction_id")
        .annotate(number=Count("subxid"), counted=Count("changes"))
        .values_list("transaction_id", "number", "counted")
    )
    return {identifier: Aborted(number, number == counted) for identifier, number, counted in found}


def changes_are_kept(row: Transaction, slot: Slot) -> bool:
    """Return whether the changes of an aborted or rolled-back transaction are still stored."""
    if row.state not in ("aborted", "rolled back"):
        return True
    gone = AbortedSubtransaction.objects.filter(
        transaction_id=row.pk, subxid=row.xid or 0, swept=True
    )
    return slot.keep_aborted or not gone.exists()


def recorded(
    incarnations: Collection[int], prepared: Collection[str], running: Collection[int]
) -> dict[tuple[str | None, int], tuple[int, int]]:
    """Find recorded transactions by gid or xid.

    Return (gid, or None for a running transaction, xid) → (id, incarnation's id).
    """
    if not incarnations or not (prepared or running):
        return {}
    found = rows(_RECORDED, [list(incarnations), list(prepared), list(running)])
    return {(gid, xid): (pk, incarnation) for gid, xid, pk, incarnation in found}


def revision() -> str:
    """Return a text that changes whenever in-flight transactions may have changed."""
    return "-".join(
        f"{part.timestamp():.6f}" if isinstance(part, dt.datetime) else str(part)
        for part in rows(_REVISION)[0]
    )
