"""No secret that nobody typed reaches a server that it is not for: tried on a server that asks for
the password in plain text and keeps what it gets.
"""

import socket
import struct
import threading
from collections.abc import Iterator

import psycopg
import pytest
from django.test import Client

from replview.acts.credentials import Credentials, candidate_of, set_credentials
from replview.acts.moving import plan_move
from replview.catalog.problems import SourceProblem
from replview.store.dsn import full_conninfo, set_dsn
from replview.store.models import Source, SourceDraft
from replview.store.reachable import DSNError
from replview.store.untyped_secrets import trusting_hosts
from tests.support.people import make_user
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.django_db

SECRET = "not-for-you"
_SSL, _GSS = 80877103, 80877104


class Listener:
    """A server that asks everybody for the password, and keeps it."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.asked = 0
        self.got: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                self._ask(connection)

    def _ask(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        while (head := connection.recv(8)) and struct.unpack("!II", head)[1] in (_SSL, _GSS):
            connection.sendall(b"N")
        if not head:
            return
        connection.recv(struct.unpack("!I", head[:4])[0] - 8)
        self.asked += 1
        connection.sendall(b"R" + struct.pack("!II", 8, 3))
        if answer := connection.recv(1000):
            self.got.append(answer[5:].rstrip(b"\0"))


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.socket.close()


@pytest.fixture
def machine(settings, tmp_path, monkeypatch, listener: Listener) -> None:
    """Put the secret everywhere that libpq looks for passwords, and serve pages."""
    settings.SERVES_PAGES, settings.SOURCE_FILES = True, [str(tmp_path)]
    services, passwords, kept = (tmp_path / name for name in ("services", "passwords", "kept"))
    services.write_text(f"[prod]\nhost=prod.example\nport=5432\nuser=u\npassword={SECRET}\n")
    passwords.write_text(f"prod.example:*:*:*:{SECRET}\n*:*:*:*:{SECRET}\n")
    kept.write_text(SECRET)
    passwords.chmod(0o600)
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    settings.SOURCE_PASSWORDS = {
        "env:SHOP_PASSWORD": ["prod.example"], f"file:{kept}": ["10.0.0.0/8"]
    }  # fmt: skip


#: Addresses that an account may type; ``{port}`` is the listener's.
ADDRESSES = [
    ("service=prod hostaddr=127.0.0.1 port={port}", ""),
    ("service=prod host=127.0.0.1 port={port}", ""),
    ("service=prod port={port}", ""),
    ("host=prod.example hostaddr=127.0.0.1 port={port} user=u", ""),
    ("host=127.0.0.1 port={port} user=u", ""),
    ("host=127.0.0.1 port={port} user=u passfile={files}/passwords", ""),
    ("host=127.0.0.1 port={port} user=u require_auth=password", ""),
    ("host=127.0.0.1 port={port} user=u", "env:SHOP_PASSWORD"),
    ("host=prod.example hostaddr=127.0.0.1 port={port} user=u", "env:SHOP_PASSWORD"),
    ("host=127.0.0.1 port={port} user=u", "file:{files}/kept"),
]


@pytest.mark.parametrize(("dsn", "reference"), ADDRESSES)
def test_no_secret_of_the_machine_is_sent_where_somebody_likes(
    machine, tmp_path, listener: Listener, dsn: str, reference: str
) -> None:
    dsn, reference = (text.format(port=listener.port, files=tmp_path) for text in (dsn, reference))
    source = Source.objects.create(name="shop", conninfo="host=prod.example user=u")
    kept = Source.objects.create(
        name="kept", conninfo="host=prod.example user=u", password_ref="env:SHOP_PASSWORD"
    )
    ways = [
        lambda: plan_move(source, dsn, reference),
        lambda: plan_move(kept, dsn, reference, keep_password=True),
        lambda: set_credentials(source, Credentials(dsn=dsn, password_ref=reference), by="x"),
    ]
    for way in ways:
        with pytest.raises((DSNError, SourceProblem)):
            way()
    admin = Client()
    admin.force_login(make_user("root", "admin"))
    sent = {"how": "string", "dsn": dsn}
    if reference:
        sent = {"how": "fields", "host": "127.0.0.1", "port": str(listener.port), "database": "x",
                "user": "u", "password": reference}  # fmt: skip
    for kind in SourceDraft.Kind.values if not reference or "hostaddr" not in dsn else ():
        assert admin.post(f"/sources/new/{kind}/", sent).status_code == 422
    assert not SourceDraft.objects.exists()
    # Programs, also where they only ask what would be done.
    moved, changed = "kept/move", "shop/credentials"
    for address, dry in ((moved, True), (moved, False), (changed, False)):
        asked = {"dsn": dsn, "password_ref": reference, "dry_run": dry, "confirm": "kept"}
        more = {"keep_password": not reference} if address == moved else {}
        answer = admin.post(f"/api/v1/sources/{address}", {**asked, **more}, "application/json")
        assert answer.status_code == 400
    assert listener.got == []


@pytest.mark.parametrize("name", ["PGPASSWORD", "PGSERVICE"])
def test_nor_is_one_of_its_environment(machine, monkeypatch, listener: Listener, name: str) -> None:
    monkeypatch.setenv(name, "prod" if name == "PGSERVICE" else SECRET)
    with pytest.raises(DSNError, match=name):
        set_dsn(Source(name="shop"), f"host=127.0.0.1 port={listener.port} user=u")


def test_what_is_typed_is_sent_as_it_always_was(machine, listener: Listener) -> None:
    source = Source(name="shop")
    set_dsn(source, f"host=127.0.0.1 port={listener.port} user=u password=typed")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(full_conninfo(source))
    assert listener.got == [b"typed"]


def test_on_the_command_line_libpq_finds_what_it_always_finds(
    machine, settings, listener: Listener
) -> None:
    settings.SERVES_PAGES = False
    source = Source(name="shop")
    set_dsn(source, f"host=127.0.0.1 port={listener.port} user=u")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(full_conninfo(source))
    assert listener.got == [SECRET.encode()]


@pytest.mark.parametrize("reference", ["env:SHOP_PASSWORD", "file:{files}/kept"])
def test_on_the_command_line_a_kept_password_goes_to_its_own_hosts(
    machine, settings, tmp_path, listener: Listener, reference: str
) -> None:
    """A fleet file, or a command in a script, may name another host than its author means."""
    settings.SERVES_PAGES = False
    place = f"host=127.0.0.1 port={listener.port} user=u"
    reference = reference.format(files=tmp_path)
    source = Source.objects.create(name="shop", conninfo="host=prod.example user=u")
    kept = Source.objects.create(
        name="kept", conninfo="host=prod.example user=u", password_ref=reference
    )
    ways = [
        lambda: set_dsn(Source(name="new"), place, reference),
        lambda: plan_move(source, place, reference),
        lambda: plan_move(kept, place, keep_password=True),
        lambda: set_credentials(source, Credentials(dsn=place, password_ref=reference), by="x"),
    ]
    for way in ways:
        with pytest.raises(DSNError, match="--trust-host"):
            way()
    assert listener.got == []
    # A server to which the secret is sent already may be named again.
    assert candidate_of(kept, "host=prod.example user=other", reference).password_ref == reference
    with trusting_hosts(True):
        ways[0]()
    settings.SOURCE_PASSWORDS = {reference: ["127.0.0.1"]}
    ways[0]()


def test_a_server_that_is_known_keeps_what_it_is_given(machine) -> None:
    known, source = "host=127.0.0.1 user=u passfile=/root/passwords", Source(name="shop")
    set_dsn(source, known.replace("=u ", "=other "), known=known)
    assert "require_auth" not in source.conninfo
    limited = "host=127.0.0.1 user=u passfile=/dev/null/none require_auth=scram-sha-256"
    for dsn in (limited, "host=127.0.0.1 user=u", f"{limited},password"):
        set_dsn(source, dsn, known=limited)
        assert "passfile=/dev/null/none" in source.conninfo
        assert "require_auth=scram-sha-256" in source.conninfo
        assert "password" not in source.conninfo


@pytest.mark.parametrize("way", ["service", "file", "line", "variable"])
def test_what_is_for_the_server_is_proved_to_it(
    machine, settings, tmp_path, monkeypatch, source: SourceDatabase, way: str
) -> None:
    server, place = source.server, f"host=127.0.0.1 port={source.server.port}"
    role = f"user={server.user} dbname={source.name}"
    (tmp_path / "passwords").write_text(f"127.0.0.1:*:*:*:{server.password}\n")
    (tmp_path / "services").write_text(
        "\n".join(["[prod]", *f"{place} {role} password={server.password}".split()])
    )
    (tmp_path / "kept").write_text(server.password)
    monkeypatch.setenv("SHOP_PASSWORD", server.password)
    settings.SOURCE_PASSWORDS = {
        "env:SHOP_PASSWORD": ["127.0.0.0/8"], f"file:{tmp_path}/kept": ["127.0.0.1"]
    }  # fmt: skip
    found = Source(name="shop")
    dsn = "service=prod" if way == "service" else f"{place} {role}"
    set_dsn(found, dsn, {"file": f"file:{tmp_path}/kept", "variable": "env:SHOP_PASSWORD"}
            .get(way, ""))  # fmt: skip

    with psycopg.connect(full_conninfo(found)) as connection:
        assert connection.info.dbname == source.name
