"""Read the access record by keyset pages, newest first, and delete whole months of it.

Nothing is counted to read a page. Only this deletion makes the record shorter.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from django.db import connection, transaction
from django.db.models import QuerySet
from psycopg import sql

from replview.access.rights import Visitor
from replview.store.django_session import rows
from replview.store.models import AccessRecord
from replview.store.read.changes.records import utc_text
from replview.store.write.access_record import Action, note
from replview.text.parsing import whole_number

_WALK_PAGE_ROWS = 1000
_MONTHS_SQL = """
    SELECT to_date(right(c.relname, 6), 'YYYYMM'), c.relname
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
        time_text, _, number_text = text.partition("~")
        try:
            moment = dt.datetime.fromisoformat(time_text)
        except ValueError:
            return None
        number = whole_number(number_text)
        return None if number is None or moment.tzinfo is None else cls(moment, number)

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
        conditions = {"action": self.action, "user_name": self.user, "source_name": self.source,
                  "via": self.via, "at__gte": self.since, "at__lte": self.until,
                  "tables__contains": [self.table] if self.table else None}  # fmt: skip
        return records.filter(**{name: value for name, value in conditions.items() if value})


def read(
    filter_: AccessFilter, *, before: RecordPosition | None = None, limit: int = 100
) -> tuple[list[AccessRecord], RecordPosition | None]:
    """Return records, newest first, and the position of the next page; None on the last page."""
    matching = filter_.narrow(AccessRecord.objects.all())
    if before is not None:
        # The comparison of rows uses the index of each month.
        matching = matching.filter(at__lte=before.at).extra(
            where=["(at, id) < (%s, %s)"], params=[before.at, before.number]
        )
    fetched = list(matching.order_by("-at", "-id")[: limit + 1])
    records = fetched[:limit]
    older = RecordPosition(records[-1].at, records[-1].pk) if len(fetched) > limit else None
    return records, older


def walk(filter_: AccessFilter) -> Iterator[AccessRecord]:
    """Yield all records, newest first, with at most a thousand in memory."""
    position: RecordPosition | None = None
    while True:
        records, position = read(filter_, before=position, limit=_WALK_PAGE_ROWS)
        yield from records
        if position is None:
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
    names = [""]
    while len(names) <= 100:
        records = AccessRecord.objects.filter(**{f"{column}__gt": names[-1]}).order_by(column)
        next_name = records.values_list(column, flat=True).first()
        if next_name is None:
            break
        names.append(str(next_name))
    return names[1:]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The months that were, or would be, deleted."""

    months: tuple[dt.date, ...]
    records: int


def forgettable(before: dt.date) -> Forgotten:
    """Return the whole months before a date, and how many records they hold."""
    months = [(month, name) for month, name in _month_partitions() if _next_month(month) <= before]
    return Forgotten(tuple(month for month, _ in months), sum(_count(name) for _, name in months))


def forget(before: dt.date, *, user: Visitor = None) -> Forgotten:
    """Drop the whole months before a date, never the current one, and record that."""
    with transaction.atomic():
        forgotten = forgettable(min(before, dt.datetime.now(dt.UTC).date()))
        if not forgotten.months:
            return forgotten
        with connection.cursor() as cursor:
            for month, name in _month_partitions():
                if month in forgotten.months:
                    cursor.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
        note(
            Action.FORGOT_ACCESS_RECORD,
            user=user,
            subject=f"all before {_next_month(forgotten.months[-1])}",
            details={"months": [f"{month:%Y-%m}" for month in forgotten.months],
                     "records": forgotten.records},
        )  # fmt: skip
    return forgotten


def _month_partitions() -> list[tuple[dt.date, str]]:
    return [(month, str(name)) for month, name in rows(_MONTHS_SQL)]


def _count(partition: str) -> int:
    query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(partition))
    return int(rows(query)[0][0])


def _next_month(month: dt.date) -> dt.date:
    return (month + dt.timedelta(days=32)).replace(day=1)
