"""Reading what is in flight: open transactions, how others ended, and their lifecycles.

Every read is bounded by the rows that are drawn or goes over a partial index of few rows; nothing
here counts changes or ended transactions.
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
#: Tables that a text is looked for in.
_TABLES_LIMIT = 500

#: Since when it is in its state: prepared, or first heard of.
SINCE = Case(
    When(state="prepared", then=Coalesce("prepared_at", "received_at")), default=F("received_at")
)
# A prepared one counts whatever became of it: its end may have come since the source was looked at.
_RECORDED = """
    SELECT gid, xid, id, incarnation_id FROM transaction
     WHERE incarnation_id = ANY(%s)
       AND (gid = ANY(%s) OR state IN ('receiving', 'streaming') AND xid = ANY(%s))
     ORDER BY id
"""
# Differs whenever anything of the page does: a few index lookups, however much is open.
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
    """Which transactions to read; what is empty or None asks for all."""

    #: Incarnations of slots.
    incarnations: Collection[int]
    #: ``streaming`` or ``prepared``.
    state: str = ""
    #: In its state since then or longer.
    until: dt.datetime | None = None
    #: In gid, xid or the name of a table.
    text: str = ""

    def open(self) -> "QuerySet[Transaction]":
        """The open ones, each with ``since``."""
        of_state = {"streaming": ("receiving", "streaming"), "prepared": ("prepared",)}
        states = of_state.get(self.state, OPEN_STATES)
        # The index of open transactions covers all of them; its condition is repeated for it.
        found = Transaction.objects.filter(
            state__in=states, incarnation_id__in=list(self.incarnations)
        ).annotate(since=SINCE)
        # One that the SQL interface receives anew: shown as it was until it has come whole.
        found = found.exclude(state="receiving", streamed=True)
        if self.until is not None:
            found = found.filter(since__lte=self.until)
        return found.filter(self._says()) if self.text else found

    def ended(self) -> "QuerySet[Transaction]":
        """The ended ones that were streamed or two-phase, the newest first."""
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
    """What is open of one incarnation in one state."""

    incarnation_id: int
    state: str
    count: int
    #: Since when the oldest is in that state.
    oldest: dt.datetime
    #: The first record of the one that began first; None where none is known.
    first_lsn: LSN | None


def open_totals(wanted: OpenWanted) -> list[OpenTotal]:
    """Numbers of all that are open, however many they are."""
    rows = (
        wanted.open()
        .values("incarnation_id", "state")
        .annotate(count=Count("id"), oldest=Min("since"), first=Min("first_lsn"))
        .values_list("incarnation_id", "state", "count", "oldest", "first")
        .order_by()
    )
    return [OpenTotal(*row) for row in rows]


def open_rows(wanted: OpenWanted, *, prepared: bool, limit: int) -> list[Transaction]:
    """Those prepared, or those streaming or being received, the oldest first."""
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
    """Those whose end was stored after ``since``, before the one at ``before`` (stored_at, id)."""
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
    """What aborted subtransactions took away."""

    subtransactions: int
    #: Some are counted only once the transaction has ended.
    counted: bool


def aborted_of(rows: Iterable[Transaction]) -> dict[int, Aborted]:
    """By transaction; the tombstone of the whole is none of its subtransactions."""
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
    """Whether the changes of one that aborted or was rolled back are still to be seen."""
    if row.state not in ("aborted", "rolled back"):
        return True
    gone = AbortedSubtransaction.objects.filter(
        transaction_id=row.pk, subxid=row.xid or 0, swept=True
    )
    return slot.keep_aborted or not gone.exists()


def recorded(
    incarnations: Collection[int], prepared: Collection[str], running: Collection[int]
) -> dict[tuple[str | None, int], tuple[int, int]]:
    """Find them in the record: (gid, or None of a running one, xid) → (id, incarnation's id)."""
    if not incarnations or not (prepared or running):
        return {}
    found = rows(_RECORDED, [list(incarnations), list(prepared), list(running)])
    return {(gid, xid): (pk, incarnation) for gid, xid, pk, incarnation in found}


def revision() -> str:
    """Another text whenever what is in flight may have changed."""
    return "-".join(
        f"{part.timestamp():.6f}" if isinstance(part, dt.datetime) else str(part)
        for part in rows(_REVISION)[0]
    )
