"""An object store's server on this machine, with an empty bucket."""

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

import pyarrow.fs as fs
import pytest

from replview.parquet.writing.targets import Target
from replview.runtime.machine import free_port
from replview.spark.sessions import hadoop_version
from tests.support.jars import jars

KEY, SECRET = "AKIAREPLVIEWTESTS000", "of-nobody-but-this-test"


#: Options of Maven for the connector alone, since Spark has the rest of Hadoop.
_CONNECTOR = "-DincludeArtifactIds=hadoop-aws,bundle,analyticsaccelerator-s3,wildfly-openssl"


def spark_connector() -> tuple[Path, ...]:
    """Return the jars of Spark's connector for S3; skip the test where they are missing."""
    package = f"org.apache.hadoop:hadoop-aws:{hadoop_version()}"
    return jars(f"hadoop-aws-{hadoop_version()}", [package], _CONNECTOR)


@contextmanager
def served(command: list[str | Path], port: int, log: Path) -> Iterator[None]:
    """Run a server while the block runs; it listens when the block begins."""
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
    """Return a program of the tests' own environment: the machine's own may be too old."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"there is no {name} beside {sys.executable}: pip install {package}")
    return found


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put credentials of no real account into the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@dataclass
class Bucket:
    """A bucket that is empty at first, and the log of its server."""

    url: str
    log: Path

    @property
    def files(self) -> dict[str, bytes]:
        """Return all objects by their paths."""
        target = Target.of(self.url)
        return {each.path: target.read_bytes(each.path) or b"" for each in target.files(deep=True)}

    @property
    def written(self) -> list[str]:
        """Return the addresses in the order in which they were written to."""
        return re.findall(r"(?:PUT|POST) (/\S+) HTTP", self.log.read_text(errors="replace"))


@pytest.fixture
def bucket(tmp_path: Path, credentials: None) -> Iterator[Bucket]:
    """Start moto's server, which checks no credentials, and make a bucket there."""
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
    """Return a folder of the bucket as a target."""
    return f"s3://lake/out?scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1"
