"""A slice as Parquet: any engine reads back what was recorded; its bytes are always the same."""

import datetime as dt
import hashlib
import json
import random
from dataclasses import replace
from functools import partial
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from replview.parquet import reading
from replview.parquet.slices import Slice
from replview.parquet.writing import chains, planning, row_groups
from replview.parquet.writing.datasets import table_document
from replview.parquet.writing.exporting import export
from replview.parquet.writing.files import PartWriter
from replview.parquet.writing.manifests import manifests, read_manifest
from replview.parquet.writing.planning import estimate
from replview.parquet.writing.problems import Cancelled, TargetProblem
from replview.parquet.writing.targets import Target
from replview.spark.exporting import write_parts
from replview.store.models import Transaction
from tests.spark.awkward import expected_rows, write_awkward
from tests.support.digests import digests
from tests.support.written_rows import written_rows

pytestmark = pytest.mark.slow


@pytest.fixture
def whole(source, record, store_dsn) -> Slice:
    """Everything of a history of awkward values."""
    recording = write_awkward(source, record)
    recording.end()
    with reading.connect(store_dsn) as store:
        return reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))


def in_order(rows: list[dict]) -> list[dict]:
    kinds = ["update_preimage", "update_postimage"]
    # Names stand in the order of the slice's columns: another slice may have another.
    rows = [{**row, "_not_sent": sorted(row["_not_sent"])} for row in rows]
    return sorted(
        rows,
        key=lambda r: (r["_commit_version"], r["_seq"],
                       kinds.index(r["_change_type"]) if r["_change_type"] in kinds else 0),
    )  # fmt: skip


def published(folder: Path) -> str:
    """The columns of a dataset as Spark's DDL, for readers of all its files."""
    document = json.loads((folder / "_schema.json").read_text())
    fields = [*document["columns"], *document["partition_columns"]]
    return ", ".join(f"`{each['name'].replace('`', '``')}` {each['type']}" for each in fields)


def read_by_duckdb(folder: Path) -> list[dict]:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as session:
        session.execute("SET timezone = 'UTC'")
        found = session.sql(
            "SELECT * FROM read_parquet(?, hive_partitioning = true, union_by_name = true)",
            params=[f"{folder}/*/*.parquet"],
        ).to_arrow_table()
    return found.drop_columns("commit_date").to_pylist(maps_as_pydicts="strict")


def read_by_spark(spark, folder: Path) -> list[dict]:
    frame = spark.read.schema(published(folder)).parquet(str(folder)).drop("commit_date")
    return frame.toArrow().to_pylist(maps_as_pydicts="strict")


@pytest.mark.parametrize("scale", [None, 2])
def test_every_engine_reads_back_what_was_recorded(
    whole, scale, store_dsn, tmp_path, monkeypatch, spark
) -> None:
    whole = replace(whole, numeric_scale=scale)
    # Small parts, so that there are several, some of which begin within a transaction.
    monkeypatch.setattr(planning, "FEWEST_ROWS", 50)
    seen = []
    manifest = export(whole, Target.of(str(tmp_path / "a")), dsn=store_dsn, progress=seen.append)
    written = dict(manifest.document)
    with reading.connect(store_dsn) as store:
        tables = {table.name: table for table in reading.tables_of(store, whole)}
    for name, dataset in (("public.Awkward", "public.Awkward"), ("public.other", "public.other")):
        folder = tmp_path / "a" / manifest.folder / dataset
        wanted = in_order(expected_rows(tables[name]))
        found = pads.dataset(folder, partitioning="hive").to_table().drop_columns("commit_date")
        assert in_order(found.to_pylist(maps_as_pydicts="strict")) == wanted
        assert in_order(read_by_duckdb(folder)) == wanted
        assert in_order(read_by_spark(spark, folder)) == wanted
    assert len([f for f in written["files"] if "public.other/" in f["path"]]) > 3
    assert any("." in Path(f["path"]).name.split("-")[1] for f in written["files"]), "none is split"
    for each in written["files"]:
        path = tmp_path / "a" / each["path"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == each["sha256"]
        assert pq.read_metadata(path).num_rows == each["rows"]
        assert pq.read_metadata(path).row_group(0).column(0).compression == "ZSTD"
    assert written["changes"] == sum(table.rows for table in tables.values())
    events = pads.dataset(tmp_path / "a" / manifest.folder / "events").to_table().to_pylist()
    # NaN fits no decimal.
    unfit = {None: [], 2: [2]}[scale]
    assert [each["unfit"] for each in written["tables"] if "unfit" in each] == unfit
    assert sorted(each["op"] for each in events) == ["message", "truncate"]
    seqs = pads.dataset(tmp_path / "a" / manifest.folder / "transactions").to_table()["commit_seq"]
    assert sorted(seqs.to_pylist()) == list(range(1, whole.through_seq + 1))
    assert seen[-1].rows == seen[-1].total_rows
    assert (tmp_path / "a" / manifest.folder / "_SUCCESS").exists()

    # Spark writes the same rows and types into files of the same names.
    export(
        whole,
        Target.of(str(tmp_path / "b")),
        dsn=store_dsn,
        write_parts=partial(write_parts, spark),
    )
    assert written_rows(tmp_path / "b") == written_rows(tmp_path / "a")
    assert not [path for path in (tmp_path / "b").rglob("*") if "_writing-" in path.name]
    # Complete files are left as they are.
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*.parquet")}
    assert export(whole, Target.of(str(tmp_path / "a")), dsn=store_dsn) == manifest
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_run_that_was_killed_goes_on_where_it_stopped(whole, store_dsn, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "FEWEST_ROWS", 50)
    target = Target.of(str(tmp_path / "a"))
    numbers = iter(range(1, 100))

    class Killed(BaseException):
        pass

    def write(self, connection, part, **options):
        if next(numbers) > 3:
            raise Killed
        return written(self, connection, part, **options)

    written = PartWriter.write
    with monkeypatch.context() as patch:
        patch.setattr(PartWriter, "write", write)
        with pytest.raises(Killed):
            export(whole, target, dsn=store_dsn)
    left = list((tmp_path / "a").rglob("*.parquet"))
    # Two are written side by side: the third may be under way, and is not left half done.
    assert len(left) in (2, 3)
    assert not list((tmp_path / "a").rglob("_SUCCESS"))
    # One of them is cut off, as by a disk that lost it; and a half-written one of the killed run.
    left[0].write_bytes(left[0].read_bytes()[:-9])
    left[0].with_name(f"_writing-{left[0].name}-0a1b2c3d").write_bytes(b"half")
    [schema, *_] = tmp_path.rglob("_schema.json")
    schema.with_name("_writing-_schema.json-0a1b2c3d").write_bytes(b"half")
    before = {path: path.stat().st_mtime_ns for path in left[1:]}

    with pytest.raises(TargetProblem, match="not finished"):
        export(replace(whole, through_seq=whole.through_seq - 1), target, dsn=store_dsn)
    export(whole, target, dsn=store_dsn)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    export(whole, Target.of(str(tmp_path / "b")), dsn=store_dsn)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_cancelling_leaves_nothing_unless_it_shall_go_on_later(whole, store_dsn, tmp_path):
    target = Target.of(str(tmp_path / "a"))
    looks = iter(range(100))
    with pytest.raises(Cancelled):
        export(whole, target, dsn=store_dsn, cancelled=lambda: next(looks) > 3, keep=True)
    kept = [str(path) for path in tmp_path.rglob("*")]
    assert any(path.endswith(".parquet") for path in kept)
    assert not any("_writing-" in path or path.endswith("_SUCCESS") for path in kept)
    with pytest.raises(Cancelled):
        export(whole, target, dsn=store_dsn, cancelled=lambda: True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    # Nor does a run that mends a slice which had lost a file.
    manifest = export(whole, target, dsn=store_dsn)
    target.delete(manifest.files[0]["path"])
    with pytest.raises(Cancelled):
        export(whole, target, dsn=store_dsn, cancelled=lambda: True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_writers_are_ended_and_the_first_error_is_raised(whole, store_dsn, tmp_path) -> None:
    ended = []

    def write(writer, parts, dsn, wrote, cancelled):
        try:
            while True:
                yield None
        finally:
            ended.append("writers")
            raise ArithmeticError

    reports = iter([None, BrokenPipeError()])

    def report(progress) -> None:
        if (error := next(reports)) is not None:
            raise error

    with pytest.raises(BrokenPipeError):
        export(whole, Target.of(str(tmp_path)), dsn=store_dsn, write_parts=write, progress=report)
    assert ended == ["writers"]


def test_a_slice_is_taken_back_beside_another(whole, store_dsn, tmp_path) -> None:
    target = Target.of(str(tmp_path))
    first = export(replace(whole, through_seq=6), target, dsn=store_dsn)
    before = digests(tmp_path)
    second = export(replace(whole, after_seq=6), target, dsn=store_dsn)
    chains.take_back(target, second)
    there = digests(tmp_path)
    assert {path for path in before if path not in there} == {f"{first.folder}/_manifest.json"}
    assert {path for path in there if path not in before} == set()
    chains.take_back(target, first)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_was_planned_needs_no_session_until_the_end(whole, store_dsn, tmp_path) -> None:
    """A pooler ends idle sessions, and retention deletes what is in the files already."""

    def write(writer, parts, dsn, wrote, cancelled):
        with reading.connect(dsn) as store:
            store.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
                " current_database() AND application_name = 'replview spark'"
                " AND pid <> pg_backend_pid()"
            )
            for part in parts:
                yield writer.write(store, part)
        Transaction.objects.filter(commit_seq=1).delete()

    manifest = export(whole, Target.of(str(tmp_path)), dsn=store_dsn, write_parts=write)
    assert manifest.document["transactions"] == whole.through_seq
    assert manifest.document["gaps"] == []


def test_slices_stand_side_by_side_but_never_twice(whole, store_dsn, tmp_path, monkeypatch) -> None:
    target = Target.of(str(tmp_path))
    first = replace(whole, through_seq=6)
    export(first, target, dsn=store_dsn)
    with pytest.raises(TargetProblem, match="twice"):
        export(replace(whole, after_seq=3), target, dsn=store_dsn)
    rest = replace(whole, after_seq=6)
    second = export(rest, target, dsn=store_dsn)
    assert len(manifests(target, second.folder)) == 2
    assert read_manifest(target, second.folder) == second
    assert read_manifest(target, first).slice == first
    with reading.connect(store_dsn) as store:
        [table, other] = reading.tables_of(store, whole)
        wanted = in_order(expected_rows(table))
        folder = tmp_path / second.folder / "public.Awkward"
        # The first slice has the shape before, whose id is an int: the published schema reads both.
        assert in_order(read_by_duckdb(folder)) == wanted
        document = json.loads((folder / "_schema.json").read_text())
        assert [each["number"] for each in document["versions"]] == [1, 2]
        assert document["columns"][0]["type"] == "bigint"
        assert document["key_columns"] == ["id"]
        incompatible = {**document, "columns": [{"name": "v", "type": "binary"}]}
        with pytest.raises(TargetProblem, match="new root"):
            table_document(other, incompatible)
        # A stranger's file is never written over.
        stranger = tmp_path / "x" / Path(second.files[0]["path"])
        stranger.parent.mkdir(parents=True)
        stranger.write_bytes((tmp_path / second.files[-1]["path"]).read_bytes())
        with pytest.raises(TargetProblem, match="did not write"):
            export(rest, Target.of(str(tmp_path / "x")), dsn=store_dsn)

        estimated = estimate(store, whole)
        assert (estimated.rows, estimated.spark) == (table.rows + other.rows, False)
        assert estimated.transactions == whole.through_seq
        assert [each.table for each in estimated.tables] == ["Awkward", "other"]
        assert (estimated.bytes > 0, estimated.nearest) == (True, None)
        monkeypatch.setattr(planning, "DERIVED_PER_SECOND", 1.0)
        derived = estimate(store, replace(whole, before="derived"))
        assert (derived.rows, derived.seconds > estimated.seconds) == (estimated.rows, True)
        later = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
        nothing = estimate(store, replace(whole, since=later, tables=("public.other",)))
        assert (nothing.rows, nothing.transactions) == (0, 0)
        assert nothing.nearest["time"] < later.isoformat()
        orjson.dumps(nothing)


@pytest.mark.parametrize("seed", range(5))
def test_row_groups_end_by_their_values_alone(seed, monkeypatch) -> None:
    """Spark gives other batches, with the same values."""
    chance = random.Random(seed)
    monkeypatch.setattr(row_groups, "GROUP_ROWS", chance.randrange(5, 80))
    monkeypatch.setattr(row_groups, "GROUP_BYTES", chance.choice([1, 500, 3000]))
    text = [None, "", "x" * chance.randrange(50)]
    rows = [
        {"text": chance.choice(text), "number": chance.choice([None, 7]),
         "list": chance.choice([None, [], [chance.choice(text), "y"]]),
         "map": chance.choice([None, [], [("k", chance.choice(text))]])}
        for _ in range(300)
    ]  # fmt: skip
    schema = pa.schema([
        ("text", pa.string()), ("number", pa.int64()), ("list", pa.list_(pa.string())),
        ("map", pa.map_(pa.string(), pa.string())),
    ])  # fmt: skip

    def groups(most: int) -> list[int]:
        whole, batches, begin = pa.Table.from_pylist(rows, schema), [], 0
        while begin < len(rows):
            end = begin + chance.randrange(1, most)
            made = pa.Table.from_pylist(rows[begin:end], schema)
            batches += chance.choice([whole.slice(begin, end - begin), made]).to_batches()
            begin = end
        found = [*row_groups.row_groups(batches, schema)]
        assert pa.concat_tables(found).to_pylist() == whole.to_pylist()
        return [each.num_rows for each in found]

    first = groups(400)
    assert len(first) > 3
    assert groups(40) == groups(7) == first
