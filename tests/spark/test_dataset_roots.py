"""Columns become of other types in mid-history: the archive goes on in a root of its own."""

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from replview.parquet import reading
from replview.parquet.archive.reading import ArchivedIncarnation
from replview.parquet.erasure.finding import FileErasure
from replview.parquet.erasure.roots import ErasureRoot
from replview.parquet.slices import Slice
from replview.parquet.writing.datasets import newly_opened
from replview.parquet.writing.exporting import export
from replview.parquet.writing.layout import incarnation_folder
from replview.parquet.writing.manifests import mark_unfinished, path_of
from replview.parquet.writing.targets import Target
from replview.spark.archive_job import count
from replview.spark.history.activity import who_changed
from replview.spark.history.datasets import Dataset
from replview.spark.history.snapshots import as_of, schema_versions
from replview.spark.history.spans import END
from replview.spark.reading_programs import Program
from replview.spark.sessions import SparkProblem
from replview.spark.snippets import snippets
from replview.store.models import Relation
from replview.store.read.row_history.trails import KeySpan, key_of
from replview.store.retention.archive import SliceCounts, counts_of, difference
from tests.spark.exporting import archived
from tests.spark.printed_programs import as_arrow, run

pytestmark = pytest.mark.slow

#: Incompatible (text → int, numeric → timestamptz), both ways in one transaction, and back again.
HISTORY = (
    "CREATE TABLE t (id int PRIMARY KEY, v text, n numeric(10,2), w int)",
    "CREATE TABLE calm (id int PRIMARY KEY)",
)
CHANGES = (
    "INSERT INTO t VALUES (1, '10', 1.50, 1), (2, '20', 'NaN', 2)",
    "INSERT INTO calm VALUES (1)",
    # Wider: the same root.
    "ALTER TABLE t ALTER w TYPE bigint",
    "UPDATE t SET w = 99999999999 WHERE id = 1",
    "ALTER TABLE t ALTER v TYPE int USING v::int, ALTER n TYPE timestamptz USING"
    " coalesce(to_timestamp(nullif(n, 'NaN')), 'infinity')",
    "UPDATE t SET v = 11, n = '2026-11-20 07:57:11.5+00' WHERE id = 1",
    "INSERT INTO calm VALUES (2)",
    "BEGIN; INSERT INTO t VALUES (3, 30, NULL, 3); ALTER TABLE t ALTER v TYPE text USING v::text;"
    " UPDATE t SET v = 'thirty' WHERE id = 3; COMMIT",
    "UPDATE t SET v = 'eleven' WHERE id = 1",
    "DELETE FROM t WHERE id = 2",
)

#: Rows at the end.
LATEST = [(1, "eleven", 99999999999), (3, "thirty", 3)]

#: Key and ``v`` of each change, as text from all roots.
EVERY_CHANGE = [
    (1, "10"), (2, "20"), (1, "10"), (1, "11"), (3, "30"), (3, "thirty"), (1, "eleven"), (2, None),
]  # fmt: skip


@pytest.fixture
def whole(source, record, store_dsn) -> Slice:
    """All of that."""
    source.run(*HISTORY)
    recording = record(source)
    for statement in CHANGES:
        source.run(statement)
        # Read later, the catalog does not tell whether a shape is the same: versions would be more.
        recording.caught_up()
    recording.end()
    with reading.connect(store_dsn) as store:
        return reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))


def roots(root: Path, whole: Slice) -> dict[str, dict[str, Any]]:
    """Folder → what it publishes."""
    incarnation = root / incarnation_folder(whole)
    paths = sorted(incarnation.glob("public.t*/_schema.json"))
    return {path.parent.name: orjson.loads(path.read_bytes()) for path in paths}


def changes_by(program: Program, spark: Any = None) -> list[tuple[Any, ...]]:
    rows = as_arrow(run(program, spark)).select(["id", "v"]).to_pylist()
    return [(row["id"], row["v"]) for row in rows]


def values(folder: Path) -> list[tuple[Any, ...]]:
    table = pads.dataset(folder, format="parquet", partitioning="hive").to_table()
    return [tuple(row[name] for name in ("id", "v", "_change_type")) for row in table.to_pylist()]


def test_incompatible_types_open_a_root_and_nothing_is_lost(
    whole: Slice, store_dsn: str, tmp_path: Path
) -> None:
    manifests = archived(whole, tmp_path, store_dsn)
    found = roots(tmp_path, whole)
    # The slice goes on, and so does every other table.
    assert [one.slice for one in manifests] == [whole]
    files = {each["dataset"].rpartition("/")[2]: each["files"]
             for each in manifests[0].document["tables"]}  # fmt: skip
    assert files == {"public.calm": 1, "public.t": 1, "public.t.2": 1, "public.t.3": 2}

    types = {
        name: {each["name"]: each["type"] for each in document["columns"]}
        for name, document in found.items()
    }
    columns = {name: (of["v"], of["n"], of["w"]) for name, of in types.items()}
    assert columns == {
        "public.t": ("string", "decimal(10,2)", "bigint"),
        "public.t.2": ("int", "timestamp", "bigint"),
        # A transaction with rows of both kinds, and what came after it.
        "public.t.3": ("string", "timestamp", "bigint"),
    }
    assert found["public.t.2"]["follows"]["dataset"] == "public.t"
    assert found["public.t.2"]["follows"]["because"] == (
        "column n of public.t is decimal(10,2) in the files that are there and timestamp now"
    )
    opened = [each for one in manifests for each in newly_opened(one, Target.of(str(tmp_path)))]
    assert [folder.rpartition("/")[2] for folder, _ in opened] == ["public.t.2", "public.t.3"]
    incarnation = tmp_path / incarnation_folder(whole)
    assert values(incarnation / "public.t") == [
        (1, "10", "insert"), (2, "20", "insert"), (1, "10", "update_postimage"),
    ]  # fmt: skip
    assert values(incarnation / "public.t.2") == [(1, 11, "update_postimage")]
    assert values(incarnation / "public.t.3") == [
        (3, "30", "insert"), (3, "thirty", "update_postimage"), (1, "eleven", "update_postimage"),
        (2, None, "delete"),
    ]  # fmt: skip

    # Counted as retention wants it, slice by slice.
    for one in manifests:
        seqs = one.document["commit_seq"]
        there = count(Target.of(str(tmp_path)), one)
        stored = counts_of(whole.incarnation_id, seqs["after"], seqs["through"])
        changes = {(oid, op): number for oid, op, number in there["changes"]}
        assert difference(stored, SliceCounts(there["transactions"], changes)) == ""

    # A row's history and a transaction, over all roots, in the server's texts.
    oid = Relation.objects.get(table="t").oid
    read = ArchivedIncarnation.of(str(tmp_path), whole.source, whole.slot, whole.incarnation)
    history = read.row([oid], {"id": "1"}).changes
    assert [(c.new or {}).get("v") for c in history] == ["eleven", "11", "10", "10"]
    assert [(c.new or {}).get("n") for c in history] == [
        "2026-11-20 07:57:11.5+00", "2026-11-20 07:57:11.5+00", "1.50", "1.50",
    ]  # fmt: skip
    first = read.transaction(1)
    assert first is not None
    assert [(c.new or {}).get("n") for c in first.changes] == ["1.50", "NaN"]
    # The whole slice at once stands in one root, as text.
    one = export(whole, Target.of(str(tmp_path / "one")), dsn=store_dsn)
    assert list(roots(tmp_path / "one", whole)) == ["public.t"]
    assert one.document["changes"] == sum(each.document["changes"] for each in manifests)

    # Erased from all of them.
    span = KeySpan(key_of({"id": "1"}))
    wanted = FileErasure(
        erasure=1, day="2026-11-22", homes=[(whole.source, whole.slot)], tables={oid: [span]}
    )
    assert len(ErasureRoot.of(str(tmp_path), wanted).erase().files) == 3
    left = [v for name in found for _, v, _ in values(incarnation / name)]
    assert [v for v in left if v is not None] == ["20", "30", "thirty"]


def test_a_run_killed_before_the_end_goes_on_in_the_same_roots(
    whole: Slice, store_dsn: str, tmp_path: Path
) -> None:
    def digests() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    [made] = archived(whole, tmp_path, store_dsn)
    before = digests()
    # Leave the files as a run does that is killed between the second root and the third.
    target = Target.of(str(tmp_path))
    mark_unfinished(target, whole)
    target.delete(path_of(whole))
    *_, gone = [each["path"] for each in made.files if "public.t.3/" in each["path"]]
    target.delete(gone)
    assert archived(whole, tmp_path, store_dsn) == [made]
    assert digests() == before


@pytest.mark.long
def test_programs_read_all_roots(whole: Slice, store_dsn: str, tmp_path: Path) -> None:
    archived(whole, tmp_path, store_dsn)
    *before, last = (
        (str(tmp_path / incarnation_folder(whole) / name), document)
        for name, document in roots(tmp_path, whole).items()
    )
    for program in snippets(*last, before=before):
        if program.name != "Spark":
            assert changes_by(program) == EVERY_CHANGE, program.name


@pytest.mark.own_jvm
def test_spark_reads_all_roots_as_one_table(
    whole: Slice, store_dsn: str, tmp_path: Path, spark
) -> None:
    archived(whole, tmp_path, store_dsn)
    dataset = Dataset.find(str(tmp_path), "public.t")
    assert [each.name for each in dataset.incarnation.tables] == ["public.calm", "public.t"]

    rows = as_of(spark, dataset).frame.collect()
    assert sorted((row["id"], row["v"], row["w"]) for row in rows) == LATEST
    assert sorted(row["n"] or "" for row in rows) == ["", "2026-11-20 07:57:11.5+00"]
    first = dataset.changes(spark, END).where("_change_type = 'insert'").collect()
    # A value that no decimal holds stood beside the column; a text column holds it.
    assert [column.name for column in dataset.columns] == ["id", "v", "n", "w"]
    assert {row["value0"]: row["value2"] for row in first} == {1: "1.50", 2: "NaN", 3: None}
    assert not any(row["_pg_raw"] for row in first)
    shapes = schema_versions(spark, dataset).frame.collect()
    # The transaction that alters the table has two versions of its own: the catalog is read after
    # its end and does not tell which of its changes came before the ALTER. The next one has what is
    # known again.
    assert [row["version"] for row in shapes] == [1, 2, 3, 4, 5, 6]
    assert shapes[3]["columns"] == shapes[2]["columns"]
    assert shapes[5]["columns"] == shapes[4]["columns"]
    assert shapes[4]["retyped"] == ["v: integer → text"]
    assert shapes[2]["retyped"] == [
        "v: text → integer", "n: numeric(10,2) → timestamp with time zone",
    ]  # fmt: skip
    found = who_changed(spark, [dataset]).frame.collect()
    assert sum(row["changes"] for row in found if row["operation"] == "insert") == 3
    with pytest.raises(SparkProblem, match="no table"):
        # A folder of its own, but no table: what may be seen is asked of tables.
        Dataset.find(str(tmp_path), "public.t.2")

    *before, last = (
        (str(tmp_path / incarnation_folder(whole) / name), document)
        for name, document in roots(tmp_path, whole).items()
    )
    [program] = [each for each in snippets(*last, before=before) if each.name == "Spark"]
    assert changes_by(program, spark) == EVERY_CHANGE


def test_a_domain_is_what_it_is_over(source, record, store_dsn: str, tmp_path: Path) -> None:
    source.run(
        "CREATE DOMAIN small AS int CHECK (VALUE < 100)", "CREATE DOMAIN smaller AS small",
        "CREATE TABLE d (id int PRIMARY KEY, s smaller, t date)",
    )  # fmt: skip
    recording = record(source)
    source.run("INSERT INTO d VALUES (1, 5, '2026-11-20'), (2, NULL, NULL)")
    recording.caught_up()
    with reading.connect(store_dsn) as store:
        first = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
    export(first, Target.of(str(tmp_path)), dsn=store_dsn)
    [folder] = tmp_path.glob("*/*/public.d")
    found = pads.dataset(folder, partitioning="hive").to_table()
    assert found.schema.field("s").type == pa.int32()
    assert found["s"].to_pylist() == [5, None]
