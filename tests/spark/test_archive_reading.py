"""The archive answers what the store did: a transaction's changes, and those of a row."""

import datetime as dt

import orjson
import pyarrow as pa
import pytest

from replview.parquet import reading
from replview.parquet.archive import reading as archive_reading
from replview.parquet.archive.reading import ArchivedIncarnation
from replview.parquet.pg_values import convert, pg_text
from replview.parquet.slices import Slice
from replview.parquet.writing import planning
from replview.parquet.writing.exporting import export
from replview.parquet.writing.layout import incarnation_folder
from replview.parquet.writing.manifests import Manifest, manifests
from replview.parquet.writing.targets import Target
from replview.spark.archive_job import count
from replview.store.models import AbortedSubtransaction, Change, Relation, Transaction
from replview.store.retention.archive import SliceCounts, counts_of, difference
from tests.spark.awkward import write_awkward


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (pa.bool_(), ["t", "f"]),
        (pa.int64(), ["-9223372036854775808", "0"]),
        (pa.decimal128(12, 2), ["9999999999.99", "-0.10", "0.00", "1.50"]),
        (pa.float64(), ["1", "-0", "0.1", "100000000000000", "1e+15", "1.5e+15", "1.25e+300",
                        "0.0001", "1e-05", "1.7976931348623157e+308", "5e-324", "123456.789",
                        "NaN", "Infinity", "-Infinity", "-2.5"]),
        (pa.float32(), ["1", "0.1", "100000", "1e+06", "1.234567e+06", "3.4028235e+38", "1e-05"]),
        (pa.date32(), ["2026-11-20", "0001-01-01"]),
        (pa.timestamp("us"), ["2026-11-20 07:57:11.3", "2026-11-20 00:00:00",
                              "0099-01-01 00:00:00.000001"]),
        (pa.timestamp("us", "UTC"), ["2026-11-20 07:57:11.369827+00"]),
        (pa.binary(), ["\\x00ff", "\\x"]),
        (pa.string(), ["", "x"]),
        (pa.list_(pa.string()), ['{a,NULL,"b,c","NULL","",\"q\\"uo\\\\te\"}', "{}"]),
        (pa.list_(pa.int32()), ["{1,NULL}"]),
    ],
    ids=str,
)  # fmt: skip
def test_a_typed_value_is_told_as_the_server_wrote_it(kind: pa.DataType, texts: list) -> None:
    converted = convert(texts, kind)
    assert not converted.raw
    assert [pg_text(value, kind) for value in converted.array.to_pylist()] == texts


@pytest.fixture
def whole(source, record, store_dsn, tmp_path, monkeypatch) -> Slice:
    """A history of awkward values, archived in two slices, in small files."""
    monkeypatch.setattr(planning, "FEWEST_ROWS", 50)
    recording = write_awkward(source, record)
    recording.end()
    with reading.connect(store_dsn) as store:
        part = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
        middle = part.through_seq // 2
        for after, through in ((0, middle), (middle, part.through_seq)):
            one = reading.resolve(
                store,
                reading.SliceRequest(
                    slot=recording.slot.name, after_seq=after, through_seq=through
                ),
            )
            export(one, Target.of(str(tmp_path / "a")), dsn=store_dsn)
    return part


def in_words(image: dict | None) -> dict | None:
    """A row as the store has it; a value kept aside is given whole."""
    return image and {n: v for n, v in image.items() if not isinstance(v, dict)}


@pytest.mark.slow
def test_a_transaction_has_the_changes_that_the_store_has(whole: Slice, tmp_path) -> None:
    incarnation = ArchivedIncarnation.of(
        str(tmp_path / "a"), whole.source, whole.slot, whole.incarnation
    )
    ops = set()
    for row in Transaction.objects.filter(commit_seq__isnull=False).order_by("commit_seq"):
        found = incarnation.transaction(row.commit_seq, limit=1_000)
        assert found is not None
        assert (found.facts["xid"], found.facts["commit_time"]) == (row.xid, row.commit_time)
        gone = AbortedSubtransaction.objects.filter(transaction_id=row.pk).values("subxid")
        stored = Change.objects.filter(transaction_id=row.pk).exclude(subxid__in=gone)
        stored = list(stored.order_by("seq"))
        assert [(c.seq, c.op, c.lsn) for c in found.changes] == [
            (c.seq, c.op, str(c.lsn)) for c in stored
        ]
        assert not found.more
        for here, there in zip(stored, found.changes, strict=True):
            ops.add(here.op)
            if here.op == "M":
                assert there.new["content"] == "told"
            elif here.op != "T":
                assert in_words(there.new) == in_words(here.new)
            if here.op == "U" and here.old_kind == "O":
                assert (there.old_kind, in_words(there.old)) == ("O", in_words(here.old))
        if row.commit_lsn is not None:
            by_lsn = incarnation.transaction(
                commit_lsn=int(row.commit_lsn), commit_time=row.commit_time
            )
            assert by_lsn is not None
            assert by_lsn.facts == found.facts
    assert ops == set("IUDTM")
    assert incarnation.transaction(10_000) is None
    assert incarnation.transaction(commit_lsn=1, commit_time=dt.datetime.now(dt.UTC)) is None

    # A page of a large one, and the next.
    large = Transaction.objects.get(inserts=300)
    first = incarnation.transaction(large.commit_seq, limit=100)
    assert first is not None
    assert first.more
    rest = incarnation.transaction(large.commit_seq, after=first.changes[-1].seq, limit=100)
    assert rest is not None
    assert next(c.seq for c in rest.changes) == first.changes[-1].seq + 1


@pytest.mark.slow
def test_what_is_counted_in_the_files_is_what_the_store_counts(whole: Slice, tmp_path) -> None:
    target = Target.of(str(tmp_path / "a"))
    seen = set()
    for name in manifests(target, incarnation_folder(whole)):
        document = target.read_bytes(f"{incarnation_folder(whole)}/_manifests/{name}.json")
        manifest = Manifest(orjson.loads(document or b""))
        counts = count(target, manifest)
        there = SliceCounts(counts["transactions"], {(o, op): n for o, op, n in counts["changes"]})
        ends = manifest.document["commit_seq"]
        here = counts_of(whole.incarnation_id, ends["after"], ends["through"])
        assert difference(here, there) == ""
        assert here == there
        seen |= {operation for _, operation in here.changes}
    assert seen == {"insert", "update", "delete", "truncate", "message"}


@pytest.mark.slow
def test_a_row_has_its_changes_newest_first_page_by_page(
    whole: Slice, tmp_path, monkeypatch
) -> None:
    incarnation = ArchivedIncarnation.of(
        str(tmp_path / "a"), whole.source, whole.slot, whole.incarnation
    )
    oids = {relation.table: relation.oid for relation in Relation.objects.all()}
    found = incarnation.row([oids["Awkward"]], {"id": "1"})
    assert [(c.op, c.key_columns) for c in found.changes] == [("D", ["id"]), ("I", ["id"])]
    assert found.changes[1].new["price"] == "NaN"
    assert found.changes[0].old == {"id": "1"}
    assert found.older is None
    # The row moved to another key: both keys know of it.
    for key in ("2", "4"):
        moved = incarnation.row([oids["Awkward"]], {"id": key}).changes[0]
        assert (moved.op, moved.new["id"], moved.old) == ("U", "4", {"id": "2"})
    assert incarnation.row([oids["Awkward"]], {"id": "no number"}).changes == []
    assert incarnation.row([oids["Awkward"]], {"nothing": "1"}).changes == []
    assert incarnation.row([1], {"id": "1"}).changes == []

    every = [c.seq for c in incarnation.row([oids["other"]], {"id": "1"}).changes]
    paged, cursor = [], None
    while True:
        page = incarnation.row([oids["other"]], {"id": "1"}, cursor=cursor, limit=1)
        paged += [c.seq for c in page.changes]
        if page.older is None:
            break
        cursor = page.older
    assert paged == every
    assert len(every) == 2
    # A read that takes too long can be continued.
    late = incarnation.row([oids["other"]], {"id": "1"}, seconds=-1)
    assert (late.changes, late.searched_back_to is not None) == ([], True)
    assert [c.seq for c in archive_reading.ArchivedIncarnation.row(
        incarnation, [oids["other"]], {"id": "1"}, cursor=late.older).changes] == every  # fmt: skip
