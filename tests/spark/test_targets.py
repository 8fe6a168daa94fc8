"""Targets prove that they can be written, and say what to mend where they cannot."""

import os
from pathlib import Path

import pyarrow.fs as pa_fs
import pyspark
import pytest

from replview.parquet.writing import targets
from replview.parquet.writing.filesystems import Address, Sink
from replview.parquet.writing.problems import TargetProblem, problem_of
from replview.parquet.writing.targets import Target
from replview.spark.sessions import SparkProblem, naming_connectors
from tests.support.object_store import Bucket
from tests.support.object_store import bucket as bucket  # a fixture
from tests.support.object_store import credentials as credentials  # a fixture


def refusal(url: str) -> TargetProblem:
    with pytest.raises(TargetProblem) as caught:
        targets.test_write(Target.of(url))
    return caught.value


def test_a_local_folder_is_tried_and_left_as_it_was(tmp_path) -> None:
    for url in (str(tmp_path / "new" / "x"), (tmp_path / "a b").as_uri()):
        targets.test_write(Target.of(url))
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_says_what_to_mend(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("x")
    assert "part of the path is a file" in refusal(str(tmp_path / "file" / "x")).cause
    assert "proc" not in refusal("/proc/replview").cause
    assert "nothing here can write" in refusal("gopher://x/y").cause
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    assert refusal("oss://bucket/x").remedy == "pip install fsspec ossfs"
    assert refusal("az://box/x").remedy == "pip install fsspec adlfs"
    for secret in ("s3://AKIA:hidden@b/x", "s3://b/x?secret_key=hidden", "abfs://b/x?sas_token=h"):
        problem = refusal(secret)
        assert "credentials" in problem.cause
        assert "hidden" not in str(problem)
    assert "cannot be read" in refusal("s3://b/x?no_such_option=1").cause


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_a_folder_without_permission(tmp_path) -> None:
    """The test's user may be root, who may write anywhere: a child becomes somebody else."""
    tmp_path.chmod(0o555)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o055 if parent != Path("/tmp") else 0o1777)
    child = os.fork()
    if child == 0:
        os.seteuid(65534)
        try:
            targets.test_write(Target.of(str(tmp_path / "x")))
        except TargetProblem as error:
            os._exit(7 if "no permission" in error.cause else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_object_store_is_told_apart_by_its_words() -> None:
    for words, message in (
        ("AWS Error NO_SUCH_BUCKET during PutObject", "bucket or container does not exist"),
        ("AWS Error ACCESS_DENIED during PutObject for key 'secret'", "refuses access"),
        ("AWS Error NETWORK_CONNECTION during PutObject", "cannot be reached"),
        ("UNKNOWN (HTTP status 411): MissingContentLength", "does not know the checksums"),
        ("something of key hunter2", "cannot be written"),
    ):
        problem = problem_of(OSError(words))
        assert message in problem.cause
        assert "hunter2" not in str(problem)
        assert "'secret'" not in str(problem)


# As Spark says it.
@pytest.mark.parametrize(
    ("words", "scheme", "package"),
    [
        ("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
         "s3a", "hadoop-aws"),
        ("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.azurebfs.SecureAzureBlob",
         "abfss", "hadoop-azure"),
        ("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.gs.GoogleHadoopFileSystem",
         "gs", "hadoop-gcp"),
        ('UnsupportedFileSystemException: No FileSystem for scheme "oss"', "oss", "hadoop-aliyun"),
        ('UnsupportedFileSystemException: No FileSystem for scheme "weird"', "weird", "spark.jars"),
    ],
)  # fmt: skip
def test_a_connector_that_spark_lacks_is_named_with_its_package(words, scheme, package) -> None:
    with pytest.raises(SparkProblem) as caught, naming_connectors():
        raise RuntimeError(words)
    assert caught.value.cause == f"Spark has no connector for {scheme}://"
    assert package in caught.value.remedy
    with pytest.raises(ZeroDivisionError), naming_connectors():
        raise ZeroDivisionError
    # Of a connector without what it stands on.
    lacking = "lacks Amazon's libraries"
    with pytest.raises(SparkProblem, match=lacking) as raised, naming_connectors():
        raise RuntimeError("java.lang.NoClassDefFoundError: software/amazon/awssdk/core/Exception")
    assert f"hadoop-aws:{hadoop_version()}" in raised.value.remedy


def hadoop_version() -> str:
    """Return the version of pyspark's Hadoop, which a connector must match."""
    [jar] = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-runtime-*.jar")
    return jar.stem.removeprefix("hadoop-client-runtime-")


def test_a_moved_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch) -> None:
    """Spark does not sync what it writes."""
    done, sync, rename = [], os.fsync, os.replace

    def synced(descriptor: int) -> None:
        sync(descriptor)
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    def renamed(path: str, to: str) -> None:
        rename(path, to)
        done.append("renamed")

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    (tmp_path / "a").write_bytes(b"one")
    Target.of(str(tmp_path)).move("a", "folder/b")
    assert done == [str(tmp_path / "a"), "renamed", str(tmp_path / "folder")]


def write_and_fail(sink: Sink) -> None:
    """Fail after more than one part of an upload."""
    sink.write(bytes(12 << 20))
    raise ZeroDivisionError


@pytest.mark.slow
def test_a_failed_write_leaves_the_object_that_was_there(bucket: Bucket) -> None:
    target = Target.of(bucket.url)
    targets.test_write(target)
    target.write_bytes("a", b"one")
    target.write_bytes("a", b"two")
    for path in ("a", "b"):
        with pytest.raises(ZeroDivisionError), target.create(path) as sink:
            write_and_fail(sink)
    assert bucket.files == {"a": b"two"}
    target.delete("a")
    assert target.files(deep=True) == []


class Hdfs(pa_fs.LocalFileSystem):
    """A file system that refuses to rename a file to a name that exists, as HDFS does."""

    #: Names that are refused besides.
    refused: str = ""

    def move(self, src: str, dest: str) -> None:
        if os.path.exists(dest) or (self.refused and dest.endswith(self.refused)):
            self.refused = ""
            raise OSError("the destination exists")
        super().move(src, dest)


def test_a_failed_rename_leaves_the_file_that_was_there(tmp_path) -> None:
    hdfs = Hdfs()
    target = Target(Address("hdfs://host/root", hdfs, str(tmp_path), "hdfs"))
    targets.test_write(target)
    target.write_bytes("a", b"one")
    target.write_bytes("a", b"two")
    target.write_bytes("b", b"three")
    for write in (lambda: target.write_bytes("a", b"four"), lambda: target.move("b", "a")):
        hdfs.refused = "/a"
        with pytest.raises(TargetProblem):
            write()
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
            "a": b"two",
            "b": b"three",
        }
    target.move("b", "a")
    with pytest.raises(ZeroDivisionError), target.create("a") as sink:
        write_and_fail(sink)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"three")]
