"""``format("replview")``: the record in Spark, as a batch and as a stream."""

from datetime import UTC

import pytest
from pyspark.errors import PySparkException

from replview.parquet import reading
from tests.spark.awkward import expected_rows, write_awkward
from tests.spark.streaming import stream_by

pytestmark = pytest.mark.slow


@pytest.fixture
def frame(spark, store_dsn):
    def read(**options):
        return spark.read.format("replview").options(dsn=store_dsn, **options).load()

    return read


def test_a_table_arrives_typed_and_filters_reach_the_store(
    source, record, frame, spark, store_dsn, capsys
) -> None:
    recording = write_awkward(source, record)
    with reading.connect(store_dsn) as store:
        whole = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
        awkward, other = reading.tables_of(store, whole)
    read = frame(relation="public.Awkward", slot=recording.slot.name, rowsPerPartition="2")
    rows = [row.asDict(recursive=True) for row in read.collect()]
    for row in rows:
        row["_commit_timestamp"] = row["_commit_timestamp"].astimezone()
        assert row.pop("commit_date") == row["_commit_timestamp"].astimezone(UTC).date()
    expected = expected_rows(awkward)
    for row in expected:
        row["raw"] = None if row["raw"] is None else bytearray(row["raw"])
    assert rows == expected
    assert read.rdd.getNumPartitions() > 1
    read.explain(True)
    assert "postgresql://" not in capsys.readouterr().out

    middle = sorted({row["_commit_version"] for row in expected_rows(other)})[1]
    few = frame(relation="public.other", columns="v").where(f"_commit_version <= {middle}")
    plain = few.collect()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushed = few.where("true").collect()
        assert pushed == plain
        counted = frame(relation="public.other").where(f"_commit_version = {middle}")
        assert counted.count() == sum(
            row["_commit_version"] == middle for row in expected_rows(other)
        )
        xid = next(row["_xid"] for row in expected_rows(other) if row["v"] == "v300")
        of_one = frame(relation="public.other", xid=str(xid), min_changes="300")
        assert of_one.where(f"_xid = {xid}").count() == 300
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert few.columns[0] == "v"
    assert len(plain) == sum(row["_commit_version"] <= middle for row in expected_rows(other))

    untyped = frame().select("op", "table", "old", "new").collect()
    assert {row.op for row in untyped} == {"insert", "update", "delete", "truncate", "message"}
    assert untyped[0].new.startswith('{"n": "1.50"')


def test_errors_say_what_to_do(source, record, frame, spark) -> None:
    source.run("CREATE TABLE other (id int PRIMARY KEY, v text)")
    recording = record(source)
    source.run("INSERT INTO other VALUES (1)")
    recording.caught_up()
    for options, message in (
        ({"relation": "public.othre"}, "did you mean public.other?"),
        ({"slot": "nowhere"}, "the store has no slot 'nowhere'"),
        ({"relation": "public.other", "columns": "w"}, "has no column 'w'"),
        ({"from_lsn": "x"}, "write it like 0/1B2C3D8"),
        ({"relatoin": "public.other"}, "did you mean relation?"),
        ({"states": "aborted"}, "choose of committed, snapshot, message"),
        ({"xid": "7", "gid": "x"}, "give gid or xid"),
        ({"min_bytes": "many"}, "min_bytes is no number from 1 on"),
        ({"numeric_scale": "-1"}, "numeric_scale is no number from 0 on"),
    ):
        with pytest.raises(PySparkException) as caught:
            frame(**options)
        assert message in str(caught.value)
    with pytest.raises(PySparkException) as caught:
        spark.read.format("replview").option("dsn", "postgresql://u:hush@127.0.0.1:1/x").load()
    assert "nothing answers at the store's address" in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.own_jvm
def test_a_stream_goes_on_where_it_stopped_and_doubles_nothing(
    source, record, spark, store_dsn, tmp_path
) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    source.run(*[f"INSERT INTO t SELECT generate_series({n}, {n + 9})" for n in range(0, 50, 10)])
    recording.caught_up()

    def run() -> list[int]:
        return stream_by(spark, tmp_path, 20, dsn=store_dsn, relation="public.t")

    assert run() == [20, 20, 10]
    assert run() == []
    # Remove the last commit, as a crash between the writing of a batch and its commit would.
    folder = tmp_path / "checkpoint" / "commits"
    commits = sorted(folder.glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    source.run("INSERT INTO t VALUES (50)")
    recording.caught_up()
    run()
    found = spark.read.parquet(str(tmp_path / "out")).select("id").collect()
    assert sorted(row.id for row in found) == list(range(51))
