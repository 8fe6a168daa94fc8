"""Looking into slots: what there is, what it costs, how far it is, what was found."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import escape

import pytest
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from replview.features.peeks import job as peeking
from replview.features.peeks.page import (
    peek_form_page,
    progress_page,
    result_page,
    server_slots_page,
)
from replview.features.peeks.text import PeekResult, WaitingRow
from replview.jobs import peeks
from replview.runtime.servers.server_programs import debian_postgres15
from replview.store.dsn import set_dsn
from replview.store.models import Slot, SlotPeek, Source
from replview.text.formats import plural
from replview.ui.sentence import Sentence
from tests.support.page_elements import spaced

EVIL = "<img src=x onerror=alert(1)>"


def text_of(response) -> str:
    return spaced(response.content.decode())


@pytest.fixture
def shop(db, source) -> Source:
    """A real server with two publications, an idle slot of others, and what waits in it."""
    source.run(
        "CREATE TABLE orders (id int PRIMARY KEY, status text)",
        "CREATE PUBLICATION p FOR ALL TABLES",
        "CREATE PUBLICATION q FOR TABLE orders",
        "SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')",
        "INSERT INTO orders SELECT n, 'pending' FROM generate_series(1, 5) AS n",
    )
    return register(source)


def register(source) -> Source:
    row = Source(name="shop")
    set_dsn(row, source.dsn)
    row.save()
    return row


def done(shop: Source, **result) -> SlotPeek:
    """A look that found something."""
    now = timezone.now()
    told = {
        "plugin": "pgoutput", "from_lsn": "0/1A0B2C8", "until_lsn": "0/1E91C3D8",
        "complete": True, "stopped_by": None, "seconds": 1.23, "changes": 3401,
        "transactions": 12, "open_transactions": 1, "prepared": 0, "bytes": 812345,
        "oldest_commit": (now - timedelta(hours=3)).isoformat(),
        "newest_commit": now.isoformat(), "tables": [], "listed": [], "first_changes": [],
        "unknown": [],
    }  # fmt: skip
    peek = peeks.request(shop, "theirs", options={"publications": ["p"]}, max_changes=1000,
                         max_seconds=15, by="alice")  # fmt: skip
    peeks.finish(peeks.rows.claim(), told | result)
    peek.refresh_from_db()
    return peek


RESULT = {
    "tables": [{"table": "public.orders", "inserts": 1200, "updates": 800, "deletes": 0,
                "truncates": 1}],
    "listed": [{"xid": 757, "gid": None, "state": "committed", "commit_lsn": "0/1E91A000",
                "commit_time": "2026-11-20T07:57:11.3Z", "changes": 3, "bytes": 84,
                "actors": [{"seq": 0, "actor": None, "grade": None},
                           {"seq": 2, "actor": EVIL, "grade": "claimed"},
                           {"seq": 4, "actor": "bob", "grade": "perhaps"}],
                "tables": ["public.orders"]},
               {"xid": 758, "gid": "the_gid", "state": "prepared", "commit_lsn": None,
                "commit_time": None, "changes": None, "bytes": None, "tables": []}],
    "unknown": ["it does not tell sizes"],
}  # fmt: skip


def a_change(op: str, **values) -> dict[str, object]:
    """Return a change as a look stores it."""
    known = {"xid": 757, "gid": None, "op": op, "schema": "public", "table": "orders",
             "seq": 1, "lsn": None, "key": None, "old": None, "new": None,
             "not_sent": []}  # fmt: skip
    return known | values


def test_all_slots_of_the_server(shop: Source, source) -> None:
    source.run("SELECT pg_create_physical_replication_slot('standby_fra', true)")
    try:
        Slot.objects.create(source=shop, name="theirs")
        page = server_slots_page(shop)
    finally:
        source.run("SELECT pg_drop_replication_slot('standby_fra')")

    rows = {row.slot.slot_name: row for row in page.rows}
    assert (rows["theirs"].ours, rows["theirs"].refusal) == (True, "")
    physical = rows["standby_fra"]
    assert not physical.ours
    assert physical.refusal == "a physical slot sends WAL, not changes of rows"
    refused = sum(bool(row.refusal) for row in page.rows)
    assert page.sentence == Sentence(
        level="idle",
        title=f"{plural(len(rows), 'slot')} on this server, {len(rows) - refused} can be peeked.",
        cause="A peek decodes the waiting changes and does not advance the slot.",
        next="choose an idle one.",
    )


def test_a_refused_look_links_to_all_slots(signed_in: Client, shop: Source, source) -> None:
    source.run("SELECT pg_create_physical_replication_slot('standby_fra', true)")
    try:
        page = text_of(signed_in.get("/sources/shop/slots/standby_fra/peek/"))
    finally:
        source.run("SELECT pg_drop_replication_slot('standby_fra')")

    link = '<a class="btn" href="/sources/shop/slots/">All slots of shop</a>'
    assert "A peek needs an idle logical slot" in page
    assert page.count(link) == 1
    possible = text_of(signed_in.get("/sources/shop/slots/theirs/peek/"))
    assert possible.count(link) == 1


def test_the_list_of_slots_is_rendered(signed_in: Client, shop: Source, source) -> None:
    source.run("SELECT pg_create_physical_replication_slot('standby_fra', true)")
    Slot.objects.create(source=shop, name="theirs")
    peeks.request(shop, EVIL, options={}, max_changes=1000, max_seconds=15, by="a")
    peeks.rows.fail(peeks.rows.claim(), f"no right {EVIL}", "")
    try:
        page = text_of(signed_in.get("/sources/shop/slots/"))
    finally:
        source.run("SELECT pg_drop_replication_slot('standby_fra')")

    ours = page.split('id="slot-theirs"')[1].split("</tr>")[0]
    assert 'href="/slots/shop/theirs/">theirs' in ours
    assert ">ours</span>" in ours
    assert 'href="/sources/shop/slots/theirs/peek/"' in ours
    physical = page.split('id="slot-standby_fra"')[1].split("</tr>")[0]
    assert 'aria-disabled="true"' in physical
    assert "a physical slot sends WAL, not changes of rows" in physical
    assert "/peek/" not in physical
    assert re.search(r"<b>\d+ slots? on this server, \d+ can be peeked", page)
    assert EVIL not in page
    assert page.count(escape(EVIL)) == 2


def test_a_server_without_slots_says_what_to_do(signed_in: Client, source) -> None:
    with source.connect() as connection:
        # Slots belong to the cluster, and other tests may have left some.
        connection.execute(
            "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE active"
        )
        connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    shop = register(source)

    page = server_slots_page(shop)
    assert page.rows == ()
    assert page.sentence == Sentence(
        level="idle",
        title="No slot on this server.",
        cause="No slot retains its WAL.",
        next="add one, or read again.",
    )
    assert "replview slot add SOURCE SLOT" in text_of(signed_in.get("/sources/shop/slots/"))


def test_a_server_that_does_not_answer_is_named(db) -> None:
    shop = Source.objects.create(name="shop", conninfo="host=127.0.0.1 port=1 dbname=x user=u")

    listed, asked = server_slots_page(shop), peek_form_page(shop, "theirs")
    cause = "No server answers at 127.0.0.1:1."
    assert listed.sentence == Sentence(
        level="look", title="Cannot read the slots of shop.", cause=cause
    )
    assert asked.sentence == Sentence(level="look", title="Cannot peek into theirs.", cause=cause)
    for page in (listed, asked):
        assert page.place is None
        assert page.trouble is not None
        assert page.trouble.remedy.startswith("Check host and port in the address")
    assert asked.form is None


@pytest.mark.parametrize("path", ["slots/", "slots/theirs/peek/"])
def test_a_page_that_cannot_be_read_says_what_mends_it(signed_in: Client, db, path: str) -> None:
    Source.objects.create(name="shop", conninfo="host=127.0.0.1 port=1 dbname=x user=u")

    page = text_of(signed_in.get(f"/sources/shop/{path}"))
    assert page.count("No server answers at 127.0.0.1:1.") == 2
    assert "Check host and port in the address" in page
    assert signed_in.get(f"/sources/nobody/{path}").status_code == 404


def test_a_dsn_that_cannot_be_used_is_named(db) -> None:
    shop = Source.objects.create(name="shop", conninfo="env:NOT_SET_ANYWHERE")

    assert "NOT_SET_ANYWHERE is not set" in server_slots_page(shop).sentence.cause


def test_the_cost_comes_first(signed_in: Client, shop: Source) -> None:
    page = text_of(signed_in.get("/sources/shop/slots/theirs/peek/"))

    assert "<b>Show the changes waiting in theirs.</b>" in page
    assert page.index("Cost on shop") < page.index('<form method="post" class="peek-form"')
    assert "PostgreSQL decodes from restart_lsn" in page
    assert "The slot is not advanced." in page
    for name in ("p", "q"):
        assert f'name="publication" value="{name}" checked' in page
    assert 'value="1000" checked' in page
    assert "those its consumer uses are unknown: all are selected" in page


def test_all_publications_are_chosen_where_its_reader_is_unknown(shop: Source) -> None:
    form = peek_form_page(shop, "theirs").form

    assert form is not None
    assert (form.known, form.chosen) == ([], ["p", "q"])
    assert form.asks_publications


def test_the_publications_of_our_own_slot_are_chosen(shop: Source) -> None:
    Slot.objects.create(source=shop, name="theirs", publications=["q"])

    form = peek_form_page(shop, "theirs").form
    assert form is not None
    assert (form.known, form.chosen) == (["q"], ["q"])


def test_looking_again_begins_with_the_same_bounds(signed_in: Client, shop: Source) -> None:
    peek = done(shop)
    SlotPeek.objects.filter(pk=peek.pk).update(max_changes=10_000, max_seconds=60)
    peek.refresh_from_db()
    again = result_page(peek).again
    assert again == "/sources/shop/slots/theirs/peek/?changes=10000&seconds=60"

    page = text_of(signed_in.get(again))
    assert 'value="10000" checked' in page
    assert 'value="60" checked' in page
    form = peek_form_page(shop, "theirs").form
    assert form is not None
    form.keep_bounds(QueryDict("changes=7"))
    assert (form.changes, form.seconds) == (1000, 15)


def test_asking_leads_to_a_link_that_stays(signed_in: Client, shop: Source) -> None:
    sent = {"changes": "10000", "seconds": "5", "publication": ["q", "no such"]}
    response = signed_in.post("/sources/shop/slots/theirs/peek/", sent)

    peek = SlotPeek.objects.get()
    assert response["Location"] == f"/peeks/{peek.pk}/"
    assert (peek.slot_name, peek.max_changes, peek.max_seconds) == ("theirs", 10000, 5)
    assert (peek.options, peek.requested_by, peek.state) == (
        {"publications": ["q"]}, "alice", "requested"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"changes": "1000", "seconds": "5"}, "Choose at least one publication"),
        ({"changes": "7", "seconds": "5", "publication": "p"}, "Choose a limit"),
        ({"changes": "1000", "seconds": "nan", "publication": "p"}, "Choose a limit"),
    ],
)
def test_bounds_are_checked(signed_in: Client, shop: Source, sent, words: str) -> None:
    response = signed_in.post("/sources/shop/slots/theirs/peek/", sent)

    assert response.status_code == 422
    assert words in text_of(response)
    assert not SlotPeek.objects.exists()


def test_what_cannot_be_looked_into_is_not_asked_for(
    signed_in: Client, shop: Source, source
) -> None:
    source.run("DROP PUBLICATION p", "DROP PUBLICATION q")
    sent = {"changes": "1000", "seconds": "5", "publication": "p"}
    page = text_of(signed_in.post("/sources/shop/slots/theirs/peek/", sent))

    assert "Pgoutput needs a publication" in page
    assert not SlotPeek.objects.exists()
    assert signed_in.get("/sources/shop/slots/nobody/peek/").status_code == 404


def test_how_far_it_is(shop: Source) -> None:
    peek = peeks.request(shop, "theirs", options={}, max_changes=1000, max_seconds=15, by="a")
    page = progress_page(peek)
    assert page.sentence.title == "A worker is about to peek into theirs."
    assert page.width == 0

    SlotPeek.objects.update(requested_at=timezone.now() - timedelta(seconds=30))
    peek.refresh_from_db()
    page = progress_page(peek)
    assert (page.sentence.level, page.sentence.title, page.sentence.next) == (
        "look", "No worker has started the peek into theirs.", "check that replview up runs."
    )  # fmt: skip
    assert int(page.seconds) == 30

    claim = peeks.rows.claim()
    claim.started_at = timezone.now() - timedelta(seconds=6)
    page = progress_page(claim)
    assert page.sentence.title == "Peeking into theirs."
    assert int(page.seconds) == 6
    assert 400 <= page.width < 500


def test_a_look_in_progress_is_rendered_and_polled(signed_in: Client, shop: Source) -> None:
    poll = {"HX-Request": "true"}
    options = {"publications": [EVIL]}
    peek = peeks.request(shop, "theirs", options=options, max_changes=1000, max_seconds=15, by="a")
    page = text_of(signed_in.get(f"/peeks/{peek.pk}/"))
    assert "<b>A worker is about to peek into theirs.</b>" in page
    assert f'data-poll="1" hx-get="/peeks/{peek.pk}/"' in page
    assert EVIL not in page
    assert escape(EVIL) in page

    claim = peeks.rows.claim()
    claim.started_at = timezone.now() - timedelta(seconds=6)
    claim.save()
    part = text_of(signed_in.get(f"/peeks/{peek.pk}/", headers=poll))
    assert "<b>6 s</b>" in part
    assert "of at most 15 s, and at most 1,000 changes" in part
    assert "<html" not in part

    peeks.finish(claim, {})
    assert signed_in.get(f"/peeks/{peek.pk}/", headers=poll)["HX-Refresh"] == "true"


def test_a_look_that_failed_says_why(signed_in: Client, shop: Source) -> None:
    peek = peeks.request(shop, "theirs", options={}, max_changes=1000, max_seconds=15, by="a")
    claim = peeks.rows.claim()
    peeks.rows.fail(claim, f"no right {EVIL}", "ALTER ROLE replview REPLICATION")

    page = text_of(signed_in.get(f"/peeks/{peek.pk}/"))
    assert "The peek into theirs failed." in page
    assert EVIL not in page
    assert 'data-copy="ALTER ROLE replview REPLICATION;"' in page
    assert 'href="/sources/shop/slots/theirs/peek/?changes=1000&amp;seconds=15">Peek again' in page


def test_what_was_found(shop: Source) -> None:
    page = result_page(done(shop, **RESULT))

    assert page.sentence == Sentence(
        level="idle",
        title="12 transactions wait.",
        cause="3,401 changes in 1 table, oldest committed 3\xa0h ago; took 1.2\xa0s, "
        "slot not advanced.",
    )
    [(table, counts)] = page.tables
    assert (table["table"], counts) == ("public.orders", [("I", 1200), ("U", 800), ("T", 1)])
    committed, prepared = page.found.waiting
    assert committed == WaitingRow(
        name="757",
        is_gid=False,
        state="committed",
        commit_lsn="0/1E91A000",
        commit_time=datetime(2026, 11, 20, 7, 57, 11, 300000, tzinfo=UTC),
        changes=3,
        size_bytes=84,
        tables="public.orders",
        who=f"{EVIL}, bob (perhaps)",
    )
    assert prepared == WaitingRow(
        name="the_gid",
        is_gid=True,
        state="prepared",
        commit_lsn=None,
        commit_time=None,
        changes=None,
        size_bytes=None,
        tables="",
        who="",
    )
    assert page.found.unknown == ["it does not tell sizes"]
    assert page.bound == ""


def test_a_result_is_rendered(signed_in: Client, shop: Source) -> None:
    peek = done(shop, **RESULT, first_changes=[a_change("insert", new={"status": EVIL})])
    page = text_of(signed_in.get(f"/peeks/{peek.pk}/"))

    heading = re.search(r"<h1>(.*?)</h1>", page, re.DOTALL)
    assert heading is not None
    assert "12 transactions wait." in heading[1]
    assert "3,401 changes in 1 table" in heading[1]
    for expected in ("public.orders", "1,200", "the_gid", "it does not tell sizes", "793\xa0kB"):
        assert expected in page
    # LSN, account, changes and size of the transaction of which nothing is known.
    assert page.count('<span class="unknown">unknown</span>') == 4
    assert f"{escape(EVIL)}, bob (perhaps)" in page
    assert '<p class="bound' not in page
    assert page.count('class="block change"') == 1
    again = "/sources/shop/slots/theirs/peek/?changes=1000&amp;seconds=15"
    assert f'href="{again}">Peek again' in page
    assert EVIL not in page


def test_what_was_not_looked_at_is_said(signed_in: Client, shop: Source) -> None:
    peek = done(shop, complete=False, stopped_by="changes")
    page = result_page(peek)

    assert (page.sentence.level, page.sentence.title, page.sentence.next) == (
        "look", "At least 12 transactions wait.", "raise the limits to see all."
    )  # fmt: skip
    assert page.bound == (
        "The peek stopped at its limit of 1,000 changes at 0/1E91C3D8: later changes were not read."
    )
    rendered = text_of(signed_in.get(f"/peeks/{peek.pk}/"))
    assert f'<p class="bound marker-gap">{page.bound}</p>' in rendered


def test_first_changes_are_blocks_and_escaped(signed_in: Client, shop: Source) -> None:
    peek = done(
        shop,
        first_changes=[
            a_change("insert", key={"id": "42"}, new={"id": "42", "status": EVIL}),
            a_change("update", key={"id": "42"}, old={"id": "42", "status": "old one"},
                   actor=EVIL, actor_grade="claimed",
                   new={"id": "42", "status": "new one"}, not_sent=["note"]),
            a_change("delete", key={"id": "7"}, old={"id": "7"}, xid=758),
            a_change("truncate", table=EVIL, cascade=True, restart_identity=False),
            a_change("message", schema=None, table=None, prefix=EVIL, content=EVIL,
                   transactional=False, xid=None),
            a_change("insert", new={"body": "long " * 200}, table=None),
            a_change("never heard of"),
            {},
        ],
    )  # fmt: skip
    page = text_of(signed_in.get(f"/peeks/{peek.pk}/"))

    assert EVIL not in page
    assert page.count('class="block change"') == 8
    assert page.count('Transaction <span class="mono">757</span>') == 4
    named = f'by {escape(EVIL)} <span class="chip chip-claim">claimed</span>'
    assert " ".join(page.split()).count(named) == 1
    assert "old one" in page
    assert "new one" in page
    assert "1 not sent" in page
    assert "show all" not in page, "there is no stored value behind it"


@pytest.mark.parametrize(
    ("state", "shown", "has_symbol"),
    [
        ("open", "streaming", True),
        ("committed", "committed", True),
        ("whatever", "whatever", False),
    ],
)
def test_any_state_of_a_transaction_is_shown(state: str, shown: str, has_symbol: bool) -> None:
    found = PeekResult({"listed": [{"xid": 1, "state": state, "tables": [{"table": "public.t"}]}]})

    [waiting] = found.waiting
    assert (waiting.state, waiting.has_symbol, waiting.tables) == (shown, has_symbol, "public.t")


def test_nothing_waits(signed_in: Client, shop: Source) -> None:
    peek = done(shop, changes=0, transactions=0, open_transactions=0, oldest_commit=None)
    page = result_page(peek)

    assert page.sentence.title == "No transaction waits."
    assert (page.tables, page.found.waiting, page.groups) == ((), [], ())
    rendered = text_of(signed_in.get(f"/peeks/{peek.pk}/"))
    assert "Its consumer would receive nothing now." in rendered


def test_an_empty_result_is_unknown_not_zero() -> None:
    found = PeekResult({})
    assert found.title == "The number of waiting changes is unknown."
    assert found.cause == "Took an unknown time, slot not advanced."
    assert found.not_looked_at(10, 5) == "The peek ended before the end of the slot."
    assert PeekResult({"oldest_commit": "2026-11-20T07:57:11Z"}).oldest == datetime(
        2026, 11, 20, 7, 57, 11, tzinfo=UTC
    )
    assert PeekResult({"oldest_commit": "nonsense"}).oldest is None


def wait_for_the_end(peek: SlotPeek) -> SlotPeek:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        peek.refresh_from_db()
        if peek.state in ("done", "failed"):
            return peek
        time.sleep(0.05)
    pytest.fail(f"the look is still {peek.state}")


@pytest.mark.django_db(transaction=True)
def test_a_worker_names_what_kept_it(db) -> None:
    source = Source.objects.create(name="shop", conninfo="host=127.0.0.1 port=1 dbname=x user=u")
    peek = peeks.request(source, "theirs", options={}, max_changes=1000, max_seconds=5, by="a")
    peeking.KIND.serve()

    wait_for_the_end(peek)
    assert (peek.state, peek.problem_code) == ("failed", "unreachable")


@pytest.mark.django_db(transaction=True)
def test_a_worker_says_when_the_slot_cannot_be_looked_into(shop: Source, source) -> None:
    peek = peeks.request(shop, "nobody", options={}, max_changes=1000, max_seconds=5, by="a")
    peeking.KIND.serve()
    wait_for_the_end(peek)
    assert peek.problem_cause == "the server has no slot nobody"

    source.run("DROP PUBLICATION p", "DROP PUBLICATION q")
    peek = peeks.request(shop, "theirs", options={}, max_changes=1000, max_seconds=5, by="a")
    peeking.KIND.serve()
    wait_for_the_end(peek)
    assert "pgoutput needs a publication" in peek.problem_cause


@pytest.mark.django_db(transaction=True)
def test_a_worker_looks_and_the_slot_stays(signed_in: Client, shop: Source, source) -> None:
    position = "SELECT restart_lsn, confirmed_flush_lsn FROM pg_replication_slots"
    with source.connect() as connection:
        before = connection.execute(f"{position} WHERE slot_name = 'theirs'").fetchone()
    sent = {"changes": "1000", "seconds": "15", "publication": ["p", "q"]}
    address = signed_in.post("/sources/shop/slots/theirs/peek/", sent)["Location"]
    peeking.KIND.serve()

    peek = wait_for_the_end(SlotPeek.objects.get())
    assert (peek.state, peek.problem_cause) == ("done", "")
    assert (peek.result["transactions"], peek.result["changes"]) == (1, 5)
    assert address == f"/peeks/{peek.pk}/"
    page = result_page(peek)
    assert page.sentence.title == "1 transaction waits."
    assert page.sentence.cause.startswith("5 changes in 1 table")
    assert sum(len(group.blocks) for group in page.groups) == 5
    with source.connect() as connection:
        after = connection.execute(f"{position} WHERE slot_name = 'theirs'").fetchone()
    assert after == before


@pytest.fixture
def all_plugins(any_source) -> Iterator[None]:
    """The newest minor versions have a list of the plugins that may be used."""
    setting = "output_plugin_libraries"
    with any_source.connect() as connection:
        known = "SELECT setting FROM pg_settings WHERE name = %s"
        listed = connection.execute(known, [setting]).fetchone() is not None
        if listed:
            connection.execute(f"ALTER SYSTEM SET {setting} = pgoutput, test_decoding, wal2json")
            connection.execute("SELECT pg_reload_conf(), pg_sleep(0.3)")
    yield
    if listed:
        any_source.run(f"ALTER SYSTEM RESET {setting}", "SELECT pg_reload_conf()")


@pytest.mark.parametrize("any_version", [15], indirect=True)
@pytest.mark.parametrize("plugin", ["test_decoding", "wal2json"])
@pytest.mark.django_db(transaction=True)
def test_other_plugins_are_looked_into_too(
    signed_in: Client, any_source, all_plugins, plugin: str
) -> None:
    if not (debian_postgres15().parent / "lib" / f"{plugin}.so").exists():
        pytest.skip(f"{plugin} is not installed (Debian's postgresql-15-wal2json)")
    any_source.run(
        "CREATE TABLE orders (id int PRIMARY KEY, status text)",
        f"SELECT pg_create_logical_replication_slot('theirs', '{plugin}')",
        "INSERT INTO orders SELECT n, 'pending' FROM generate_series(1, 5) AS n",
    )
    register(any_source)
    address = "/sources/shop/slots/theirs/peek/"
    assert "Publications" not in text_of(signed_in.get(address))
    signed_in.post(address, {"changes": "1000", "seconds": "15"})
    peeking.KIND.serve()

    peek = wait_for_the_end(SlotPeek.objects.get())
    assert (peek.state, peek.problem_cause) == ("done", "")
    page = result_page(peek)
    assert page.sentence.title == "1 transaction waits."
    assert [table["table"] for table, _ in page.tables] == ["public.orders"]
    assert page.found.unknown
