"""The access record: what comes into it, that nothing of it can be changed, how it is read."""

import csv
import datetime as dt
import io
import json
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.http import QueryDict
from django.test import Client

from decoder.scalars import LSN
from replview.access.reading import AccessFilter, forget, forgettable, read, walk
from replview.access.tokens import make_token
from replview.features.access_record.page import read_access_page, wanted_of
from replview.store.connecting import connect_store
from replview.store.models import AccessRecord, Slot, Source
from replview.store.read.rows import signed_hash
from replview.store.write import access_record
from replview.store.write.access_record import Visit, note, settle, use_visit, viewed
from replview.store.write.partitions import ensure_partitions
from tests.support.history_rows import WHEN, History, insert
from tests.support.people import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_looked_at_before(settings) -> None:
    access_record._noted_at.clear()
    settings.STORE_URL = "postgresql://the-test-store/"


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(make_user("ada", "admin"))
    return client


def last(action: str) -> AccessRecord:
    return AccessRecord.objects.filter(action=action).latest("id")


def test_a_record_tells_who_from_where_and_to_what(history: History) -> None:
    user = make_user("alice")
    visit = Visit(lambda: user, address="192.0.2.7", request_id="r1", page=lambda: "transaction")
    with use_visit(visit):
        note("downloaded", relation_id=history.orders.relation_id, details={"rows": 3})

    record = last("downloaded")
    assert (record.user_name, record.user_id, record.via) == ("alice", user.pk, "page")
    assert (record.address, record.request_id, record.page) == ("192.0.2.7", "r1", "transaction")
    assert (record.source_name, record.tables) == ("shop", ["public.orders"])
    assert record.details == {"rows": 3}
    assert abs(record.at - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=1)


def test_an_unknown_action_is_refused() -> None:
    with pytest.raises(ValueError, match="looked"):
        note("looked")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE access_record SET user_name = 'nobody'",
        "DELETE FROM access_record",
        "TRUNCATE access_record",
        "UPDATE {month} SET user_name = 'nobody'",
        "DELETE FROM {month}",
        "TRUNCATE {month}",
        "DELETE FROM access_record USING source",
        "MERGE INTO access_record a USING source s ON true WHEN MATCHED THEN DELETE",
        "INSERT INTO access_record (at, id, action, via) SELECT at, id, 'erased', 'page' "
        "FROM access_record ON CONFLICT (at, id) DO UPDATE SET action = 'erased'",
    ],
)
def test_sql_cannot_change_it(history: History, statement: str) -> None:
    note("exported", user="alice")
    month = f"access_record_{dt.datetime.now(dt.UTC):%Y%m}"
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement.format(month=month))
    assert last("exported").user_name == "alice"


def test_the_orm_cannot_change_it() -> None:
    note("exported", user="alice")
    record = last("exported")
    record.user_name = "nobody"
    for change in (record.save, record.delete, AccessRecord.objects.all().delete):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            change()
    assert last("exported").user_name == "alice"


def test_it_outlives_the_account_the_source_and_the_table(history: History) -> None:
    user = make_user("alice")
    note("viewed_rows", user=user, relation_id=history.orders.relation_id)
    user.delete()
    Slot.objects.all().delete()
    Source.objects.all().delete()

    record = last("viewed_rows")
    assert (record.user_name, record.source_name) == ("alice", "shop")
    assert record.tables == ["public.orders"]


def test_what_somebody_types_and_names_is_kept_as_text() -> None:
    note("changed_settings", user="a\0b", subject="x" * 1000, details={"note": "y\0\n"})
    record = last("changed_settings")
    assert record.user_name == "a\ufffdb"
    assert len(record.subject) == 300


def test_one_look_is_one_record_a_minute(history: History, monkeypatch) -> None:
    user = make_user("alice")
    now = [1000.0]
    monkeypatch.setattr(access_record.time, "monotonic", lambda: now[0])

    def look(rows: int, **more: int) -> None:
        visit = Visit(lambda: user, page=lambda: "row-history")
        with use_visit(visit):
            viewed(relation_ids=[history.orders.relation_id], rows=rows, **more)
            viewed(relation_ids=[history.orders.relation_id], rows=1, **more)
        settle(visit)

    records = AccessRecord.objects.filter(action="viewed_rows")
    look(4)
    assert [(r.details, r.tables) for r in records] == [({"rows": 5}, ["public.orders"])]
    now[0] += 59
    look(4)
    assert records.all().count() == 1, "a page that refreshes itself"
    look(4, transaction=41)
    assert records.all().count() == 2, "another thing"
    now[0] += 2
    look(4)
    assert records.all().count() == 3, "a minute after the first"


def test_a_look_that_could_not_be_recorded_is_not_taken_for_recorded(monkeypatch) -> None:
    visit = Visit(lambda: None)
    with use_visit(visit):
        viewed(tables=["public.orders"])
    monkeypatch.setattr(access_record, "note", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        settle(visit)
    assert not access_record._noted_at


def test_signing_in_failing_and_out_is_recorded(client: Client) -> None:
    make_user("alice", password="correct-horse")
    client.post("/login/", {"username": "alice", "password": "wrong"})
    record = last("sign_in_failed")
    assert (record.user_name, record.address, record.page) == ("alice", "127.0.0.1", "login")
    client.post("/login/", {"username": "hunter2-my-password", "password": "alice"})
    record = last("sign_in_failed")
    assert record.user_name == ""
    assert "hunter2" not in json.dumps([record.subject, record.details])
    client.post("/login/", {"username": "alice", "password": "correct-horse"})
    assert last("signed_in").user_name == "alice"
    client.post("/logout/")
    assert last("signed_out").user_name == "alice"


def test_pages_are_read_by_place_without_a_hole() -> None:
    for number in range(25):
        note("searched", user="alice" if number % 2 else "bob", details={"characters": number})
    seen, place = [], None
    while True:
        rows, place = read(AccessFilter(action="searched"), before=place, limit=10)
        seen += [row.details["characters"] for row in rows]
        if place is None:
            break
    assert seen == list(range(24, -1, -1))
    of_alice = AccessFilter(action="searched", user="alice")
    assert [row.details["characters"] for row in walk(of_alice)] == list(range(23, 0, -2))


def test_the_page_shows_it_and_looking_is_recorded(admin: Client, history: History) -> None:
    note("viewed_rows", user="<b>eve</b>", relation_id=history.orders.relation_id)
    page = admin.get("/privacy/access/?table=public.orders").content.decode()
    assert "&lt;b&gt;eve&lt;/b&gt;" in page
    assert "<b>eve" not in page
    assert "public.orders" in page
    record = last("viewed_access_record")
    assert (record.user_name, record.details) == ("ada", {"table": "public.orders"})

    empty = admin.get("/privacy/access/?user=nobody").content.decode()
    assert "No record matches these filters" in empty
    assert admin.get("/privacy/access/?before=x&range=x&action=x&via=%00").status_code == 200


def test_a_page_tells_who_did_what_to_which_tables(history: History) -> None:
    relation = history.orders.relation_id
    note("viewed_rows", user="eve", relation_id=relation, details={"rows": 120})
    note("exported", user="bob", subject="export 7")
    page = read_access_page(wanted_of(QueryDict("")))
    assert page.title == "2 acts of 2 people in the last 7 d."
    assert [(line.who, line.what, line.tables, line.facts) for line in page.lines] == [
        ("bob", "exported", "", ""),
        ("eve", "viewed rows", "public.orders", "120 rows"),
    ]
    page = read_access_page(wanted_of(QueryDict("table=public.orders")))
    assert [line.who for line in page.lines] == ["eve"]
    page = read_access_page(wanted_of(QueryDict("user=nobody")))
    assert page.title == "Nothing of that was recorded in the last 7 d."


def test_the_page_goes_on_where_it_ended() -> None:
    for number in range(130):
        note("exported", user="bob", subject=f"export {number:03}")
    page = read_access_page(wanted_of(QueryDict("action=exported")))
    assert len(page.lines) == 100
    second = read_access_page(wanted_of(QueryDict(urlsplit(page.following_url).query)))
    subjects = [line.record.subject for line in [*page.lines, *second.lines]]
    assert subjects == [f"export {number:03}" for number in range(129, -1, -1)]
    assert second.following_url == ""


def test_it_is_written_as_csv_and_json_lines(admin: Client) -> None:
    note("exported", user="bob", subject="=1+1", details={"rows": 2})
    told = admin.get("/privacy/access/file/?action=exported&user=bob&format=jsonl")
    lines = [json.loads(line) for line in b"".join(told).splitlines()]
    assert [(one["user"], one["subject"], one["details"]) for one in lines] == [
        ("bob", "=1+1", {"rows": 2})
    ]
    told = admin.get("/privacy/access/file/?action=exported&user=bob&format=csv")
    rows = list(csv.DictReader(io.StringIO(b"".join(told).decode())))
    assert [row["subject"] for row in rows] == ["'=1+1"]
    assert last("exported").subject == "the access record"
    assert last("exported").user_name == "ada"


def test_the_api_tells_it_a_page_at_a_time(client: Client) -> None:
    token, _ = make_token(make_user("ada", "admin"), "audit")
    for number in range(3):
        note("searched", user="bob", details={"characters": number})

    def ask(query: str):
        return client.get(f"/api/v1/access?{query}", headers={"Authorization": f"Bearer {token}"})

    first = ask("action=searched&limit=2").json()
    second = ask(f"action=searched&limit=2&cursor={first['older'].replace('+', '%2B')}").json()
    found = [item["details"]["characters"] for item in first["items"] + second["items"]]
    assert (found, second["older"]) == ([2, 1, 0], None)
    record = last("viewed_access_record")
    assert (record.user_name, record.via) == ("ada", "api")
    assert ask("action=looked").status_code == 400
    assert ask("cursor=1").status_code == 400


@pytest.mark.parametrize("role", ["viewer", "operator", None])
def test_only_admins_see_it(client: Client, role: str | None) -> None:
    client.force_login(make_user("bob", role))
    for address in ("/privacy/access/", "/privacy/access/file/", "/api/v1/access"):
        assert client.get(address).status_code == 403


@pytest.fixture
def shop() -> tuple[History, int]:
    """A slot with a transaction of two changes, as pages and the API show it."""
    history = History()
    today = dt.datetime.now(dt.UTC).date()
    ensure_partitions(connection.connection, today, today)
    history.slot.checkpoint_lsn, history.slot.last_commit_time = LSN(50_000), WHEN
    history.slot.save()
    rows = [insert(number, key_hash=signed_hash((str(number),))) for number in (41, 42)]
    return history, history.commit(*rows)


def noted(action: str) -> list[AccessRecord]:
    return list(AccessRecord.objects.filter(action=action).order_by("id"))


@pytest.mark.parametrize(
    ("address", "details"),
    [
        ("/transactions/{id}/", {"rows": 2, "transaction": "{id}"}),
        ("/transactions/{id}/drawer/", {"rows": 2, "transaction": "{id}"}),
        ("/rows/change/{id}/1/", {"rows": 1, "transaction": "{id}"}),
        ("/find/?slot=shop/replview&table=public.orders&where=status = new", {"rows": 2}),
        ("/rows/?slot=shop/replview&table=public.orders&key.id=41", None),
        ("/api/v1/changes?slot=shop/replview", {"rows": 2, "transaction": "{id}"}),
        ("/api/v1/history?slot=shop/replview", {"rows": 2, "transaction": "{id}"}),
        ("/api/v1/rows?slot=shop/replview&table=public.orders&key=41", {"rows": 1}),
        ("/api/v1/rows/as-of?slot=shop/replview&table=public.orders&key=41", {"rows": 1}),
    ],
)
def test_whatever_shows_rows_is_one_record(
    client: Client, shop: tuple[History, int], address: str, details: dict | None
) -> None:
    client.force_login(make_user("alice", "viewer"))
    _, identifier = shop
    for _ in range(2):
        assert client.get(address.format(id=identifier)).status_code == 200, address

    [record] = noted("viewed_rows")
    assert (record.user_name, record.source_name) == ("alice", "shop")
    assert record.tables == ["public.orders"]
    assert record.via == ("api" if address.startswith("/api/") else "page")
    if details is not None:
        wanted = {n: identifier if v == "{id}" else v for n, v in details.items()}
        assert {name: record.details.get(name) for name in wanted} == wanted
    # Nothing of what was looked at: neither a value nor the key.
    told = json.dumps([record.subject, record.details, record.page])
    assert '"41"' not in told
    assert "new" not in told.replace("renew", "")


def test_pages_without_rows_are_no_look(client: Client, shop: tuple[History, int]) -> None:
    client.force_login(make_user("alice", "viewer"))
    for address in (
        "/",
        "/slots/",
        "/transactions/?slot=shop/replview",
        "/api/v1/slots",
        "/store/",
    ):
        assert client.get(address).status_code == 200
    assert client.get("/transactions/9999/").status_code == 404
    assert noted("viewed_rows") == []


def test_of_a_search_its_length_and_columns_are_noted(
    client: Client, shop: tuple[History, int]
) -> None:
    client.force_login(make_user("alice", "viewer"))
    client.get("/find/?slot=shop/replview&table=public.orders&where=status = confidential")
    client.get("/transactions/?slot=shop/replview&q=confidential")
    first, second = noted("searched")
    assert first.details == {"characters": len("status = confidential"), "columns": ["status"]}
    assert first.tables == ["public.orders"]
    assert (second.subject, second.details) == ("transactions", {"characters": 12})
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM access_record a WHERE a::text LIKE '%confidential%'")
        assert cursor.fetchone() == (0,)


def test_sql_that_is_taken_away_is_noted_by_its_change(
    client: Client, shop: tuple[History, int]
) -> None:
    client.force_login(make_user("bob", "viewer"))
    _, identifier = shop
    for part in ("changes/1/sql/", "changes/1/undo/", "undo/"):
        answer = client.get(f"/transactions/{identifier}/{part}")
        assert answer.status_code in (200, 409), part
    records = noted("copied_sql")
    assert [record.details for record in records][:1] == [{"transaction": identifier, "seq": 1}]
    assert "INSERT" not in json.dumps([[r.subject, r.details] for r in records])


def test_downloads_and_settings_are_noted(client: Client, shop: tuple[History, int]) -> None:
    client.force_login(make_user("ada", "admin"))
    b"".join(client.get("/download/?slot=shop/replview&format=jsonl"))
    assert last("downloaded").details == {"format": "jsonl"}
    client.post("/store/", {"budget": "10GB", "protect": "record"})
    assert "10GB" in last("changed_settings").subject
    slot = {"wal_budget": "10GB", "protect": "database", "heartbeat": ""}
    client.post("/slots/shop/replview/budget/", slot)
    assert "WAL budget" in last("changed_slot").subject


def _month(name: str, first: dt.date) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT access_record_make_month(%s)",
            [dt.datetime(*first.timetuple()[:3], tzinfo=dt.UTC)],
        )
        cursor.execute(
            f"INSERT INTO {name} (at, action, via) VALUES (%s, 'searched', 'page')", [first]
        )


def test_whole_months_are_forgotten_and_that_is_recorded() -> None:
    _month("access_record_202001", dt.date(2020, 1, 15))
    _month("access_record_202002", dt.date(2020, 2, 15))
    call_command("access", "forget", "--before", "2020-02-28", "--yes")

    assert list(AccessRecord.objects.filter(at__year=2020).values_list("at__month", flat=True)) == [
        2
    ]
    record = last("forgot_access_record")
    assert record.details == {"months": ["2020-01"], "records": 1}
    assert (record.via, bool(record.user_name)) == ("command", True)


def test_a_month_is_begun_while_a_back_up_reads_the_record() -> None:
    at = dt.datetime.now(dt.UTC) + dt.timedelta(days=92)
    with connect_store("a back-up") as reader, connection.cursor() as cursor:
        with reader.transaction():
            reader.execute("LOCK access_record IN ACCESS SHARE MODE")
            cursor.execute("SET LOCAL lock_timeout = '2s'")
            cursor.execute("SELECT access_record_make_month(%s)", [at])
        add = "INSERT INTO access_record (at, action, via) VALUES (%s, 'viewed_rows', 'page')"
        cursor.execute(add, [at])
        month = f"access_record_{at:%Y%m}"
        for statement in (f"DELETE FROM {month}", f"TRUNCATE {month}"):
            with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
                cursor.execute(statement)


def test_nothing_is_forgotten_without_being_asked_or_of_this_month() -> None:
    _month("access_record_202001", dt.date(2020, 1, 15))
    note("exported", user="bob")
    with pytest.raises(CommandError):
        call_command("access", "forget", "--before", "2020-02-01")
    assert forgettable(dt.date(2020, 2, 1)).records == 1
    forget(dt.date(2999, 1, 1))
    assert last("exported").user_name == "bob"
    assert not AccessRecord.objects.filter(at__year=2020).exists()


def test_the_command_lists_it(capsys) -> None:
    note("exported", user="bob", subject="a slice\x1b[2J", details={"rows": 7})
    call_command("access", "list", "--what", "exported")
    told = capsys.readouterr().out
    assert "bob" in told
    assert "7 rows" in told
    assert "\x1b" not in told
    call_command("access", "list", "--what", "exported", "--format", "jsonl")
    assert json.loads(capsys.readouterr().out)["user"] == "bob"
