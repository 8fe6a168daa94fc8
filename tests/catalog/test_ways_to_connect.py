"""TLS with its certificates, a socket, password and service files: each way to a real server.

Debian's PostgreSQL 15, for the embedded one is built without TLS.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from replview.catalog.connections import connect, reading
from replview.catalog.doctor import examine
from replview.catalog.problems import SourceProblem
from replview.receiver.sessions.walsender import ReplicationSession
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.server_programs import debian_postgres15
from replview.runtime.servers.server_user import server_user
from replview.store.dsn import full_conninfo, set_dsn
from replview.store.models import Source
from replview.store.reachable import DSNError
from tests.catalog.certificates import Authority
from tests.support.copied_clusters import copied

pytestmark = pytest.mark.slow

#: Before initdb's own lines: one role that has no password, one that must encrypt.
_HBA = """
hostssl   all certified 127.0.0.1/32 cert
hostnossl all encrypted 127.0.0.1/32 reject
"""


@dataclass
class Place:
    """A server that can be reached in every way, and where its files are."""

    server: EmbeddedPostgres
    folder: Path
    authority: Path
    other_authority: Path
    certificate: Path
    key: Path

    def dsn(self, *words: str, host: str = "localhost", user: str = "postgres") -> str:
        """Return a DSN with the host name of the server's certificate, and without a password."""
        parts = [f"host={host}", f"port={self.server.port}", "dbname=postgres", f"user={user}"]
        return " ".join([*parts, *words])

    @property
    def password(self) -> str:
        """Return the password as a word of a connection string."""
        return f"password={self.server.password}"


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """PostgreSQL 15 with TLS and a socket."""
    if debian_postgres15() is None:
        pytest.skip("PostgreSQL 15 is not installed (Debian's postgresql-15)")
    server = copied(15)
    folder = server.data_dir.parent
    authority, other = Authority(folder, "authority"), Authority(folder, "another")
    certificate, key = authority.sign("server", host="localhost")
    own, own_key = authority.sign("certified")
    sockets = folder / "sockets"
    sockets.mkdir()
    for path in (certificate, key, authority.path, sockets):
        if account := server_user():
            account.own(path)
    server.settings |= {
        "ssl": "on",
        "ssl_cert_file": str(certificate),
        "ssl_key_file": str(key),
        "ssl_ca_file": str(authority.path),
        "unix_socket_directories": str(sockets),
    }
    hba = server.data_dir / "pg_hba.conf"
    hba.write_text(_HBA + hba.read_text())
    with server:
        with psycopg.connect(server.dsn(), autocommit=True) as session:
            session.execute("CREATE ROLE certified LOGIN REPLICATION")
            session.execute("CREATE ROLE encrypted LOGIN PASSWORD 'geheim'")
        yield Place(server, folder, authority.path, other.path, own, own_key)
    shutil.rmtree(folder, ignore_errors=True)


def who(conninfo: str) -> tuple[str, bool]:
    """The role that gets in, and whether the connection is encrypted."""
    with connect(conninfo) as connection:
        row = connection.execute("SELECT current_user").fetchone()
        return row[0], connection.pgconn.ssl_in_use


def trouble(conninfo: str) -> SourceProblem:
    """Why it does not get in; the password must not be in it."""
    with pytest.raises(SourceProblem) as caught, reading(conninfo, deadline_seconds=10):
        pass
    return caught.value


def test_verify_full_trusts_the_authority_that_signed(place) -> None:
    dsn = place.dsn("sslmode=verify-full", f"sslrootcert={place.authority}", place.password)

    assert who(dsn) == ("postgres", True)
    assert not any(finding.code == "tls" for finding in examine(dsn))


def test_another_authority_is_refused_with_what_mends_it(place) -> None:
    dsn = place.dsn("sslmode=verify-full", f"sslrootcert={place.other_authority}", place.password)

    found = trouble(dsn)

    assert (found.code, "authority in sslrootcert" in found.cause) == ("tls", True)
    assert "do not lower sslmode" in found.remedy
    assert place.server.password not in str(found)
    assert [f.code for f in examine(dsn) if f.code == "tls"] == ["tls"]


@pytest.mark.parametrize(
    ("host", "words", "cause"),
    [
        ("127.0.0.1", "sslmode=verify-full sslrootcert={ca}", "is for another host name"),
        ("localhost", "sslmode=verify-full sslrootcert=/nowhere/ca.crt", "cannot read the file"),
        ("localhost", "sslmode=require user=certified", "asks role certified for a client"),
        ("localhost", "sslmode=require sslcert={crt} sslkey=/nowhere", "cannot be used"),
        ("localhost", "sslmode=require sslcert={crt} sslkey={key} user=certified2", "refused the"),
    ],
)
def test_each_thing_that_is_wrong_is_named(place, host, words, cause) -> None:
    given = words.format(ca=place.authority, crt=place.certificate, key=place.key)

    assert cause in trouble(place.dsn(given, host=host)).cause


def test_a_role_that_must_encrypt_says_so(place) -> None:
    found = trouble(place.dsn("sslmode=disable", "password=geheim", user="encrypted"))

    assert found.code == "hba_refused"
    assert "sslmode=verify-full" in found.remedy


def test_a_server_without_tls_is_named(source) -> None:
    assert "offers no TLS" in trouble(f"{source.dsn}?sslmode=require").cause


def test_a_client_certificate_opens_a_walsender_session_that_streams(place) -> None:
    dsn = place.dsn(
        "sslmode=verify-full", f"sslrootcert={place.authority}", f"sslcert={place.certificate}",
        f"sslkey={place.key}", user="certified",
    )  # fmt: skip
    assert who(dsn) == ("certified", True)

    session = ReplicationSession(dsn)
    try:
        assert session.connection.pgconn.ssl_in_use
        identity = session.identify()
        lsn = session.create_temporary_slot("by_certificate", two_phase=False)
        with psycopg.connect(place.server.dsn(), autocommit=True) as writer:
            writer.execute("CREATE PUBLICATION none")
        session.start("by_certificate", lsn, {"proto_version": "1", "publication_names": "none"})
        assert identity.system_identifier
    finally:
        session.close()


def test_a_socket_is_reached_by_its_folder(place) -> None:
    dsn = place.dsn(place.password, host=str(place.folder / "sockets"))

    assert who(dsn) == ("postgres", False)
    session = ReplicationSession(dsn)
    try:
        assert session.identify().system_identifier
    finally:
        session.close()


def test_a_password_file_of_libpq(place, tmp_path) -> None:
    passfile = tmp_path / "pgpass"
    passfile.touch(mode=0o600)
    passfile.write_text(f"localhost:{place.server.port}:*:postgres:{place.server.password}\n")

    assert who(place.dsn(f"passfile={passfile}"))[0] == "postgres"
    passfile.write_text("localhost:1:*:postgres:nothing\n")
    assert trouble(place.dsn(f"passfile={passfile}")).code == "wrong_password"


def test_a_service_file(place, tmp_path, monkeypatch) -> None:
    file = tmp_path / "pg_service.conf"
    words = place.dsn(place.password, "sslmode=require").replace(" ", "\n")
    file.write_text(f"[shop]\n{words}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(file))

    assert who("service=shop") == ("postgres", True)
    assert trouble("service=other").code == "unknown_service"


def test_a_password_in_a_file_is_read_at_each_connection(place, tmp_path, settings) -> None:
    secret = tmp_path / "secret"
    settings.SOURCE_PASSWORDS = {f"file:{secret}": ["localhost"]}
    secret.write_text(f"{place.server.password}\n")
    source = Source(name="shop")
    set_dsn(source, place.dsn(), f"file:{secret}")

    assert (source.sealed_password, str(secret) in source.password_ref) == ("", True)
    assert who(full_conninfo(source))[0] == "postgres"
    secret.write_text("another")
    assert trouble(full_conninfo(source)).code == "wrong_password"
    secret.unlink()
    with pytest.raises(DSNError, match="cannot be read"):
        full_conninfo(source)
