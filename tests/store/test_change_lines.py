"""``replview changes`` writes the same bytes as a naive form, for a varied record."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command

from replview.access.mask_making import add_rule, unsaved_rule
from replview.access.visibility import forget
from replview.store.django_session import DjangoSession
from replview.store.models import (
    AbortedSubtransaction,
    Change,
    Relation,
    RelationVersion,
    Transaction,
)
from replview.store.read.changes.batches import Batching
from replview.store.read.changes.csv_lines import COLUMNS
from replview.store.read.changes.scan import ChangeInTransaction
from replview.store.read.changes.stream import RecordWriter
from replview.store.read.rows import ChangeRow
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import WHEN, History, insert

_OPS = {"I": "insert", "U": "update", "D": "delete", "T": "truncate", "M": "message"}
_MARK = {"$masked": True}


@pytest.fixture
def begun(db, settings) -> Iterator[History]:
    """A store that the command may read, and a slot in it."""
    forget()
    settings.STORE_URL = "postgresql://the-test-store/"
    make_partitions()
    yield History()
    forget()


@pytest.fixture
def history(begun: History) -> History:
    """Every operation, form of a value, state of a key and shape of a table."""
    found = begun
    wide = found.table('a "wide" täble', 9, ["longest_name", "id", "b", "Ä\n", "aa"])
    found.commit(insert(1), insert(2, subxid=9), insert(3, subxid=10), actor="=al\"ice\u2028",
                 context={"request": {"id": "é", "n": [1, None, True]}}, origin="-o")  # fmt: skip
    AbortedSubtransaction.objects.create(transaction_id=Transaction.objects.get().pk, subxid=9)
    odd = {"aa": "\x01\t\\", "b": None, "id": "3", "longest_name": "😀" * 9, "Ä\n": ""}
    found.commit({"op": "I", "new": odd, "version": wide}, insert(4), gid="two, phases")
    found.commit(
        {"op": "U", "new": {"status": "x", "id": "1"}},
        {"op": "U", "old_kind": "K", "old": {"id": "1"}, "new": {"id": "2", "note": None}},
        {"op": "U", "old_kind": "O", "old": odd, "new": {**odd, "aa": "y"}, "version": wide},
        {"op": "D", "old_kind": "K", "old": {"id": "7"}},
        {"op": "D", "old_kind": "O", "old": odd, "version": wide},
        {"op": "T", "new": {"cascade": True, "restart_identity": False}},
        {"op": "M", "new": {"prefix": "p", "content_base64": "/w==", "transactional": True}},
        commit_time=None, xid=None,
    )  # fmt: skip
    found.commit({"op": "M", "new": {"prefix": "", "content": "@", "transactional": False}},
                 state="message", xid=None, commit_lsn=None)  # fmt: skip
    found.commit(insert(5), state="streaming")
    marks = {"id": dict(_MARK), "status": {"$binary": "AA==", "$type": 17}, "note": {"$aside": 3}}
    found.commit({"op": "I", "new": marks}, {"op": "I", "new": {"status": "x"}},
                 commit_time=WHEN.replace(microsecond=0))  # fmt: skip
    keyless = found.table("orders", 16384, ["id", "status"], number=2)
    keyless.key_columns = []
    keyless.save()
    found.new_incarnation()
    many = ({"op": "U", "new": {"id": str(n), "status": "é" * n}, "version": keyless}
            for n in range(40))  # fmt: skip
    found.commit(*many)
    for number in range(7):
        found.commit(insert(number))
    key, old, half = {"id": "7"}, {**odd, "b": "\x7f/\x1b\r\b"}, {"id": "7", "note": "n"}
    whole = {"id": "8", "status": 'a":{"$', "note": None}
    for alone in (
        {"op": "U", "new": whole}, {"op": "U", "new": {**whole, "note": dict(_MARK)}},
        {"op": "U", "old_kind": "K", "old": key, "new": whole},
        {"op": "U", "old_kind": "K", "old": key, "new": {"id": "8"}},
        {"op": "U", "old_kind": "K", "old": half, "new": whole},
        {"op": "U", "old_kind": "O", "old": old, "new": odd, "version": wide},
        {"op": "U", "old_kind": "O", "old": half, "new": whole}, {"op": "U", "new": None},
        {"op": "D", "old_kind": "K", "old": key}, {"op": "D", "old_kind": "K", "old": half},
        {"op": "D", "old_kind": "O", "old": old, "version": wide}, {"op": "D"},
        {"op": "D", "old_kind": "K", "old": key, "version": keyless},
        {"op": "D", "old_kind": "K", "old": {}, "version": keyless},
        {"op": "I", "new": {**whole, "note": "é" * 2000}, "subxid": 12},
        {"op": "I", "new": {"id": "1", "status": "s"}, "version": keyless},
    ):  # fmt: skip
        # A change that is alone in its transaction may be written by the store.
        found.commit(alone)
    return found


def naive_records(masked: set[str] = frozenset()) -> Iterator[dict[str, Any]]:
    """One dictionary after the other, each from the models alone."""
    rows = Transaction.objects.filter(commit_seq__isnull=False).select_related("incarnation__slot")
    for row in rows.order_by("incarnation__number", "commit_seq"):
        aborted = AbortedSubtransaction.objects.filter(transaction_id=row.pk)
        gone = set(aborted.values_list("subxid", flat=True))
        for change in Change.objects.filter(transaction_id=row.pk).order_by("seq"):
            if change.subxid is None or change.subxid not in gone:
                yield _naive(row, change, masked)


def _naive(row: Transaction, change: Change, masked: set[str]) -> dict[str, Any]:
    version = RelationVersion.objects.filter(pk=change.version_id or 0).first()
    names = [column["name"] for column in version.columns] if version else []
    oid = Relation.objects.filter(pk=change.relation_id or 0).values_list("oid", flat=True).first()
    time = row.commit_time and row.commit_time.isoformat(timespec="microseconds")
    record = {
        "slot": row.incarnation.slot.name, "incarnation": row.incarnation.number,
        "transaction": row.pk, "commit_seq": row.commit_seq, "xid": row.xid, "gid": row.gid,
        "commit_lsn": row.commit_lsn and str(row.commit_lsn),
        "end_lsn": row.end_lsn and str(row.end_lsn),
        "commit_time": time and time.replace("+00:00", "Z"), "origin": row.origin,
        "actor": row.actor, "context": row.context, "seq": change.seq, "lsn": str(change.lsn),
        "subxid": change.subxid, "op": _OPS[change.op],
        "schema": version and version.schema, "table": version and version.table,
        "relation_oid": oid, "version": version and version.number,
    }  # fmt: skip
    if change.op in "TM":
        own = COLUMNS[-6:]
        told = {name: change.new[name] for name in own if name in change.new}
        return {**record, "key": None, "old": None, "new": None, "not_sent": [], **told}
    old, new = (_image(image, names, masked) for image in (change.old, change.new))
    if change.op == "U" and change.old_kind == "K" and masked & set(old):
        # An old key is sent where the key is another: nor whether that is so.
        told = {n: v for n, v in old.items() if n not in masked}
        old = old if any(new.get(n, v) != v for n, v in told.items()) else None
    if change.op == "U" and new is not None and masked & set(names):
        # Not even whether a masked column changed.
        new = {n: new.get(n, _MARK) for n in names if n in new or n in masked}
    known = {**(new or {}), **(old or {})}
    key = {name: known.get(name) for name in version.key_columns}
    whole = key and all(name in known for name in key)
    sent = (old if change.op == "D" else new) or {}
    return {**record, "key": key if whole else None, "old": old, "new": new,
            "not_sent": [name for name in names if name not in sent]}  # fmt: skip


def _image(image: dict[str, Any] | None, names: list[str], masked: set[str]) -> Any:
    if image is None:
        return None
    seen = {name: image[name] for name in names if name in image}
    return {n: _MARK if n in masked and v is not None else v for n, v in seen.items()}


def as_json_lines(records: Iterator[dict[str, Any]]) -> str:
    lines = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in records)
    return "".join(f"{line}\n" for line in lines)


def as_csv(records: Iterator[dict[str, Any]]) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for each in records:
        writer.writerow([_cell(each.get(name)) for name in COLUMNS])
    return out.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str):
        return "'" + value if value[:1] in tuple("=+-@\t\r\n'") else value
    if value is None or type(value) is int:
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.fixture
def written():
    """``written("--limit", "3")``: what the command writes."""

    def run(*words: str) -> str:
        out = io.StringIO(newline="")
        call_command("changes", "--slot", "replview", *words, stdout=out)
        return out.getvalue()

    return run


@pytest.mark.parametrize("at_once", [1, 3, 2000])
@pytest.mark.parametrize("masked", [set(), {"status", "aa"}, {"id"}])
def test_every_line_is_the_naive_one(history, written, monkeypatch, at_once, masked) -> None:
    monkeypatch.setattr(Batching.__init__, "__defaults__", (at_once, at_once, 0))
    for name in masked:
        add_rule(unsaved_rule(when="display", by="test", column=name))
    assert written() == as_json_lines(naive_records(masked))
    assert written("--format", "csv") == as_csv(naive_records(masked))


def test_the_store_writes_what_is_small_and_whole(history, written, monkeypatch) -> None:
    monkeypatch.setattr(Batching.__init__, "__defaults__", (1, 1, 0))
    ours: list[ChangeRow] = []
    record = RecordWriter.record

    def noted(writer: RecordWriter, found: ChangeInTransaction) -> dict[str, Any]:
        ours.append(found[1])
        return record(writer, found)

    monkeypatch.setattr(RecordWriter, "record", noted)
    lines = written().count("\n")
    # After the first of each shape.
    assert len(ours) < lines / 2
    assert insert(6)["new"] not in [each.new for each in ours]
    ours.clear()
    add_rule(unsaved_rule(when="display", by="test", column="status"))
    assert written().count("\n") == len(ours) == lines


def test_what_was_masked_at_ingest_is_read_once(begun, written, monkeypatch) -> None:
    for number in range(1, 9):
        begun.commit(insert(number) | {"new": {"id": str(number), "note": dict(_MARK)}})
    monkeypatch.setattr(Batching.__init__, "__defaults__", (1, 1, 0))
    reads: list[str] = []
    rows = DjangoSession.rows

    def noted(session: DjangoSession, sql: str, *parameters: Any) -> Any:
        reads.extend(["read"] if "FROM change c\n" in sql else [])
        return rows(session, sql, *parameters)

    monkeypatch.setattr(DjangoSession, "rows", noted)
    assert written() == as_json_lines(naive_records())
    assert len(reads) == 8


@pytest.mark.parametrize("limit", [1, 5, 13, 1000])
def test_a_limit_cuts_between_lines(history, written, monkeypatch, limit) -> None:
    monkeypatch.setattr(Batching.__init__, "__defaults__", (4, 4, 0))
    whole = written().split("\n")
    # The last is what comes after the last line: nothing.
    assert written("--limit", str(limit)).split("\n")[:-1] == whole[:-1][:limit]
    assert written("--newest", str(limit)).split("\n")[:-1] == whole[:-1][-limit:]
    csv_whole = written("--format", "csv")
    assert csv_whole.startswith(written("--format", "csv", "--limit", str(limit)))
