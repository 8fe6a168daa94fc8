"""Rows before updates that a slice works out from the record are those that the pages tell of."""

import datetime as dt
import hashlib

import orjson
import pytest
from django.db import connection

from replview.access.visibility import reading_session
from replview.parquet import reading
from replview.parquet.reading import completing
from replview.store.models import LargeValue, Quarantine, Transaction
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.row_history.before_images import before_images
from replview.store.read.rows import signed_hash
from replview.store.write.partitions import ensure_partitions
from tests.support.baselines import take
from tests.support.history_rows import History, insert
from tests.support.row_ledger import Ledger


def read(store_dsn: str, slot: str, table: str) -> list[dict]:
    """The table's rows with those before updates."""
    with reading.connect(store_dsn) as store:
        part = reading.resolve(store, reading.SliceRequest(slot=slot, before="derived"))
        [found] = [each for each in reading.tables_of(store, part) if each.table == table]
        rows = [
            row for batch in reading.read_typed(store, part, found) for row in batch.to_pylist()
        ]
    assert [(r["_commit_version"], r["_seq"]) for r in rows] == sorted(
        (r["_commit_version"], r["_seq"]) for r in rows
    )
    return rows


def by_row(rows: list[dict], shapes: dict[int, tuple[str, ...]]) -> dict[tuple[str, int], tuple]:
    """Return, by ``(LSN, seq)``, the known row before each update, and whether it was derived."""
    found = {}
    for row in rows:
        if row["_change_type"] == "update_preimage":
            columns = shapes[row["_relation_version"]]
            known = [name for name in columns if name not in row["_not_sent"]]
            image = {name: None if row[name] is None else str(row[name]) for name in known}
            found[row["_lsn"], row["_seq"]] = (image, row["_derived"])
    return found


def pages_tell(changes) -> dict[tuple[str, int], tuple]:
    """Return, by ``(LSN, seq)``, the row before each update as the pages read it."""
    images = before_images(reading_session(), changes)
    found = {}
    for change in changes:
        if change.op != "U":
            continue
        image = images.get((change.transaction_id, change.seq))
        if image is not None:
            found[change.lsn, change.seq] = (image.image, True)
        elif change.old_kind == "O" or change.old_key_hash is not None:
            found[change.lsn, change.seq] = (change.old, False)
    return found


@pytest.mark.slow
def test_they_are_the_pages_whatever_happened_to_rows(source, record, store_dsn) -> None:
    source.run("CREATE TABLE written (n serial)")
    ledger = Ledger(source, 11)
    ledger.play(6)  # before the record begins: only a baseline knows of it
    recording = record(source)
    ledger.play(14)
    recording.caught_up()
    for table in ("plain", "twin"):
        take(recording, table)
    ledger.play(110)
    recording.caught_up()
    recording.end()

    committed = recording.transactions(state="committed")
    changes = [change for each in committed for change in changes_of(reading_session(), each.pk)]
    shapes = {1: ("id", "a", "b", "big")}
    for table in ("plain", "twin"):
        of_table = [change for change in changes if change.table == table]
        found = by_row(read(store_dsn, recording.slot.name, table), shapes)
        assert found == pages_tell(of_table)
        assert any(derived for _, derived in found.values()) == (table == "plain")


def test_nothing_is_told_across_what_is_not_known(store_dsn, monkeypatch) -> None:
    today = dt.datetime.now(tz=dt.UTC).date()
    connection.ensure_connection()
    ensure_partitions(connection.connection, today, today)
    shop = History()
    key = {"key_hash": signed_hash(["42"])}

    def update(status: str, **more) -> int:
        # "note" is a value that stayed where it was: it is not sent.
        return shop.commit({"op": "U", "new": {"id": "42", "status": status}, **key, **more})

    update("nobody knows what was before")
    shop.commit({"op": "T", "new": {"cascade": False, "restart_identity": False}})
    shop.commit(insert(42) | {"new": {"id": "42", "status": "new", "note": "kept"}, **key})
    update("paid")
    update("sent")
    skipped = shop.commit(state="skipped")
    Quarantine.objects.create(
        slot=shop.slot, incarnation=shop.incarnation, raw=b"", raw_bytes=0, cause="", remedy="",
        xid=Transaction.objects.get(pk=skipped).xid, decision="skip",
    )  # fmt: skip
    update("left out before it")
    shop.orders = shop.table("orders", 16384, ["id", "status", "added"], number=2)
    update("of another shape")
    shop.commit({"op": "D", "old": {"id": "42"}, "old_kind": "K", **key})
    update("deleted before it")
    moved = {"old": {"id": "7"}, "old_kind": "K", "old_key_hash": signed_hash(["7"])}
    update("moved here from nowhere", **moved)

    shapes = {1: ("id", "status", "note"), 2: ("id", "status", "added")}
    found = by_row(read(store_dsn, "replview", "orders"), shapes)
    stored = Transaction.objects.order_by("pk").values_list("pk", flat=True)
    changes = [change for each in stored for change in changes_of(reading_session(), each)]
    assert {at: image for at, (image, _) in found.items()} == {
        at: image for at, (image, _) in pages_tell(changes).items()
    }
    images = [image for image, _ in found.values()]
    assert [image.get("note") for image in images] == ["kept", "kept", None, None]
    assert images[2] == {"id": "42", "status": "left out before it"}
    assert (images[3], [derived for _, derived in found.values()]) == (
        {"id": "7"}, [True, True, True, False],
    )  # fmt: skip

    # A value kept aside because of its length is fetched from the change that had it.
    other = {"key_hash": signed_hash(["43"])}
    aside = {"id": "43", "status": "new", "added": {"$aside": 6}}
    made = shop.commit(insert(43) | {"new": aside, **other})
    for piece, content in enumerate(["abc", "def"]):
        LargeValue.objects.create(
            transaction_id=made, seq=1, side="new", column="added", piece=piece, content=content
        )
    shop.commit({"op": "U", "new": {"id": "43", "status": "paid"}, **other})
    before = read(store_dsn, "replview", "orders")[-2]
    assert (before["_change_type"], before["status"]) == ("update_preimage", "new")
    assert (before["added"], before["_pg_raw"]) == ("abcdef", [])
    # A value that no file may hold is told by its size and hash.
    monkeypatch.setattr(completing, "MOST_BYTES", 5)
    before = read(store_dsn, "replview", "orders")[-2]
    digest = hashlib.sha256(b"abcdef").hexdigest()
    mark = orjson.dumps({"$too_large": 6, "$sha256": digest}).decode()
    assert (before["added"], before["_pg_raw"]) == (None, [("added", mark)])
