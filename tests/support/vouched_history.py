"""A slot's record with its beginning, what was published, and gaps."""

import datetime as dt

import pytest

from decoder.scalars import LSN
from replview.store.looks import store_publication_look
from replview.store.models import SlotEvent, SlotIncarnation
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
ORDERS = ("public", "orders")


def ago(hours: float) -> dt.datetime:
    return NOW - dt.timedelta(hours=hours)


@pytest.fixture
def history() -> History:
    """A slot connected ten hours ago, all stored until an hour ago."""
    make_partitions()
    history = History()
    SlotIncarnation.objects.filter(pk=history.incarnation.pk).update(
        started_at=ago(10), started_lsn=LSN(500)
    )
    history.incarnation.refresh_from_db()
    history.commit(insert(1), commit_time=ago(9))
    history.slot.last_commit_time = ago(1)
    history.slot.checkpoint_lsn = LSN(5000)
    history.slot.save()
    return history


def published(history: History, at: dt.datetime, **table: object) -> None:
    entry = {
        "schema": "public", "table": "orders", "oid": 16384, "columns": None,
        "unpublished_columns": [], "row_filter": None, "operations": "IUDT",
        "replica_identity": "DEFAULT", "primary_key": ["id"], "root": None, **table,
    }  # fmt: skip
    tables = [] if table.get("operations") == "" else [entry]
    facts = {"publications": [], "tables": tables, "unpublished": []}
    store_publication_look(history.slot, facts, at)


def gap(history: History, at: dt.datetime) -> None:
    """The slot begins anew after something was missed."""
    incarnation = history.new_incarnation()
    SlotIncarnation.objects.filter(pk=incarnation.pk).update(started_at=at, started_lsn=LSN(9000))
    SlotEvent.objects.create(
        slot=history.slot, incarnation=incarnation, at=at, kind="gap", message="It was advanced.",
        detail={"from_lsn": "0/1388", "to_lsn": "0/2328"},
    )  # fmt: skip
