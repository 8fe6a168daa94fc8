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
from replview.store.read.history import OPEN_STATES
from replview.text.parsing import whole_number

ENDED_STATES = ("committed", "aborted", "rolled back", "skipped", "unknown")
#: Maximum number of tables whose names match a searched text.
_TABLES_LIMIT = 500

#: When the transaction was prepared, or for others, when it was first received.
SINCE = Case(
    When(state="prepared", then=Coalesce("prepared_at", "received_at")), default=F("received_at")
)
# Prepared transactions match in any state: they may have ended since the source was sampled.
_RECORDED_SQL = """
    SELECT gid, xid, id, incarnation_id FROM transaction
     WHERE incarnation_id = ANY(%s)
       AND (gid = ANY(%s) OR state IN ('receiving', 'streaming') AND xid = ANY(%s))
     ORDER BY id
"""
# Changes whenever the page's content may change; costs a few index lookups.
_REVISION_SQL = """
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
        states_of = {"streaming": ("receiving", "streaming"), "prepared": ("prepared",)}
        states = states_of.get(self.state, OPEN_STATES)
        # The condition on the state lets PostgreSQL use the partial index of open transactions.
        transactions = Transaction.objects.filter(
            state__in=states, incarnation_id__in=list(self.incarnations)
        ).annotate(since=SINCE)
        # Hide the copy that the SQL interface is receiving again: the old row is still shown.
        transactions = transactions.exclude(state="receiving", streamed=True)
        if self.until is not None:
            transactions = transactions.filter(since__lte=self.until)
        return transactions.filter(self._matches_text()) if self.text else transactions

    def ended(self) -> "QuerySet[Transaction]":
        """Return ended transactions that were streamed or two-phase, the newest first."""
        transactions = Transaction.objects.filter(
            Q(streamed=True) | Q(gid__isnull=False),
            state__in=ENDED_STATES,
            incarnation_id__in=list(self.incarnations),
            stored_at__isnull=False,
        )
        if self.state == "streaming":
            transactions = transactions.filter(streamed=True)
        elif self.state == "prepared":
            transactions = transactions.filter(gid__isnull=False)
        transactions = transactions.filter(self._matches_text()) if self.text else transactions
        return transactions.order_by("-stored_at", "-id")

    def _matches_text(self) -> Q:
        condition = Q(gid__icontains=self.text)
        if (xid := whole_number(self.text, digits=10)) is not None:
            condition |= Q(xid=xid)
        schema, _, table = self.text.rpartition(".")
        by_name = Q(table__icontains=table) & (Q(schema__iendswith=schema) if schema else Q())
        tables = Relation.objects.filter(by_name).values_list("pk", flat=True)[:_TABLES_LIMIT]
        keys = [str(pk) for pk in tables]
        return condition | Q(relations__has_any_keys=keys) if keys else condition


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


def open_totals(selection: OpenWanted) -> list[OpenTotal]:
    """Return the numbers of all open transactions, by incarnation and state."""
    rows = (
        selection.open()
        .values("incarnation_id", "state")
        .annotate(count=Count("id"), oldest=Min("since"), first=Min("first_lsn"))
        .values_list("incarnation_id", "state", "count", "oldest", "first")
        .order_by()
    )
    return [OpenTotal(*row) for row in rows]


def open_rows(selection: OpenWanted, *, prepared: bool, limit: int) -> list[Transaction]:
    """Return open transactions, either prepared or not, the oldest first."""
    is_prepared = Q(state="prepared")
    transactions = selection.open().filter(is_prepared if prepared else ~is_prepared)
    return list(transactions.order_by(SINCE, "id")[:limit])


def ended_rows(
    selection: OpenWanted,
    *,
    limit: int,
    since: dt.datetime | None = None,
    before: tuple[dt.datetime, int] | None = None,
) -> list[Transaction]:
    """Return ended transactions stored after ``since`` and before ``before`` (stored_at, id)."""
    transactions = selection.ended()
    if since is not None:
        transactions = transactions.filter(stored_at__gt=since)
    if before is not None:
        transactions = transactions.filter(
            Q(stored_at__lt=before[0]) | Q(stored_at=before[0], id__lt=before[1]),
            stored_at__lte=before[0],
        )
    return list(transactions[:limit])


@dataclass(frozen=True, slots=True)
class Aborted:
    """The aborted subtransactions of one transaction."""

    subtransactions: int
    #: True when all their changes are counted; some are counted when the transaction ends.
    counted: bool


def aborted_of(transactions: Iterable[Transaction]) -> dict[int, Aborted]:
    """Return aborted subtransactions by transaction, without tombstones of whole transactions."""
    ids = [transaction.pk for transaction in transactions if transaction.aborted_changes]
    if not ids:
        return {}
    whole = Q(subxid=F("whole_xid"))
    counts = (
        AbortedSubtransaction.objects.filter(transaction_id__in=ids)
        .annotate(
            whole_xid=Case(
                *(
                    When(transaction_id=transaction.pk, then=transaction.xid)
                    for transaction in transactions
                    if transaction.xid
                ),
                default=0,
            )
        )
        .exclude(whole)
        .values("transaction_id")
        .annotate(number=Count("subxid"), counted=Count("changes"))
        .values_list("transaction_id", "number", "counted")
    )
    return {
        identifier: Aborted(number, number == counted) for identifier, number, counted in counts
    }


def changes_are_kept(transaction: Transaction, slot: Slot) -> bool:
    """Return whether the changes of an aborted or rolled-back transaction are still stored."""
    if transaction.state not in ("aborted", "rolled back"):
        return True
    deleted = AbortedSubtransaction.objects.filter(
        transaction_id=transaction.pk, subxid=transaction.xid or 0, swept=True
    )
    return slot.keep_aborted or not deleted.exists()


def recorded(
    incarnations: Collection[int], prepared: Collection[str], running: Collection[int]
) -> dict[tuple[str | None, int], tuple[int, int]]:
    """Find recorded transactions by gid or xid.

    Return (gid, or None for a running transaction, xid) → (id, incarnation's id).
    """
    if not incarnations or not (prepared or running):
        return {}
    transactions = rows(_RECORDED_SQL, [list(incarnations), list(prepared), list(running)])
    return {(gid, xid): (pk, incarnation_id) for gid, xid, pk, incarnation_id in transactions}


def revision() -> str:
    """Return a text that changes whenever in-flight transactions may have changed."""
    return "-".join(
        f"{part.timestamp():.6f}" if isinstance(part, dt.datetime) else str(part)
        for part in rows(_REVISION_SQL)[0]
    )
