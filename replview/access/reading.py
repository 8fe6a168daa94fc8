"""Read the access record by keyset pages, newest first, and delete whole months of it.

Nothing is counted to read a page. Only this deletion makes the record shorter.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from django.db import connection, transaction
from django.db.models import QuerySet

from replview.access.rights import Visitor
from replview.store.django_session import rows
from replview.store.models import AccessRecord
from replview.store.read.changes.records import utc_text
from replview.store.write.access_record import Action, note
from replview.text.parsing import whole_number

_WALKED = 1000
_MONTHS = """
    SELECT to_date(right(c.relname, 6), 'YYYYMM'), c.oid::regclass::text
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'access_record'::regclass AND c.relname ~ '^access_record_[0-9]{6}$'
    ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """The position of a record; a page holds the records before it, which are older."""

    at: dt.datetime
    number: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse the text that ``str`` wrote; None for any other text."""
        at, _, number = text.partition("~")
        try:
            moment = dt.datetime.fromisoformat(at)
        except ValueError:
            return None
        found = whole_number(number)
        return None if found is None or moment.tzinfo is None else cls(moment, found)

    def __str__(self) -> str:
        return f"{self.at.isoformat()}~{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessFilter:
    """The conditions that records must meet; an empty one is no condition."""

    action: str = ""
    user: str = ""
    source: str = ""
    #: A table as ``schema.table``.
    table: str = ""
    via: str = ""
    since: dt.datetime | None = None
    until: dt.datetime | None = None

    def narrow(self, records: QuerySet[AccessRecord]) -> QuerySet[AccessRecord]:
        """Return the records that meet every condition."""
        wanted = {"action": self.action, "user_name": self.user, "source_name": self.source,
                  "via": self.via, "at__gte": self.since, "at__lte": self.until,
                  "tables__contains": [self.table] if self.table else None}  # fmt: skip
        return records.filter(**{name: value for name, value in wanted.items() if value})


def read(
    wanted: AccessFilter, *, before: RecordPosition | None = None, limit: int = 100
) -> tuple[list[AccessRecord], RecordPosition | None]:
    """Return records, newest first, and the position of the next page; None on the last page."""
    records = wanted.narrow(AccessRecord.objects.all())
    if before is not None:
        # The comparison of rows uses the index of each month.
        records = records.filter(at__lte=before.at).extra(
            where=["(at, id) < (%s, %s)"], params=[before.at, before.number]
        )
    found = list(records.order_by("-at", "-id")[: limit + 1])
    rows = found[:limit]
    older = RecordPosition(rows[-1].at, rows[-1].pk) if len(found) > limit else None
    return rows, older


def walk(wanted: AccessFilter) -> Iterator[AccessRecord]:
    """Yield all records, newest first, with at most a thousand in memory."""
    place: RecordPosition | None = None
    while True:
        rows, place = read(wanted, before=place, limit=_WALKED)
        yield from rows
        if place is None:
            return


def record_json(record: AccessRecord) -> dict[str, Any]:
    """Return a record in the form of the API, the command and the files."""
    return {
        "id": record.pk,
        "at": utc_text(record.at),
        "action": record.action,
        "user": record.user_name or None,
        "via": record.via,
        "address": record.address or None,
        "request_id": record.request_id or None,
        "page": record.page or None,
        "subject": record.subject,
        "source": record.source_name or None,
        "tables": record.tables,
        "details": record.details,
    }


def names_of(column: str) -> list[str]:
    """Return the different names in a column, at most 100, by jumps through its index."""
    found = [""]
    while len(found) <= 100:
        rows = AccessRecord.objects.filter(**{f"{column}__gt": found[-1]}).order_by(column)
        following = rows.values_list(column, flat=True).first()
        if following is None:
            break
        found.append(str(following))
    return found[1:]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The months that were, or would be, deleted."""

    months: tuple[dt.date, ...]
    records: int


def forgettable(before: dt.date) -> Forgotten:
    """Return the whole months before a date, and how many records they hold."""
    months = [(month, name) for month, name in _months() if _next(month) <= before]
    return Forgotten(tuple(month for month, _ in months), sum(_count(name) for _, name in months))


def forget(before: dt.date, *, user: Visitor = None) -> Forgotten:
    """Drop the whole months before a date, never the current one, and record that."""
    with transaction.atomic():
        gone = forgettable(min(before, dt.datetime.now(dt.UTC).date()))
        if not gone.months:
            return gone
        with connection.cursor() as cursor:
            for month, name in _months():
                if month in gone.months:
                    cursor.execute(f"DROP TABLE {name}")
        note(
            Action.FORGOT_ACCESS_RECORD,
            user=user,
            subject=f"all before {_next(gone.months[-1])}",
            details={"months": [f"{month:%Y-%m}" for month in gone.months],
                     "records": gone.records},
        )  # fmt: skip
    return gone


def _months() -> list[tuple[dt.date, str]]:
    return [(month, str(name)) for month, name in rows(_MONTHS)]


def _count(table: str) -> int:
    return int(rows(f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608 (a partition of ours)


def _next(month: dt.date) -> dt.date:
    return (month + dt.timedelta(days=32)).replace(day=1)
