"""Adding a source in the browser: errors beside their fields, drafts, what is carried out."""

import ast
import html
import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

import replview.acts
import replview.catalog
from replview.acts.slot_making import make_slot
from replview.catalog.connections import connect
from replview.catalog.personal_columns import looks_like
from replview.catalog.plan.new_slot import SlotPlan, make_plan
from replview.catalog.plan.slot_request import request_of
from replview.catalog.problems import SourceProblem
from replview.catalog.server import read_server_facts
from replview.catalog.tables import read_tables
from replview.features.onboarding import checking, plan_page, table_choice
from replview.features.onboarding import job as onboarding
from replview.features.onboarding.checking import Checked
from replview.features.onboarding.job import DraftRun
from replview.features.onboarding.pages import progress_page
from replview.features.onboarding.plan_page import CarriedOut
from replview.features.onboarding.steps import frame_of
from replview.features.onboarding.taking_back import take_back_lost
from replview.features.onboarding.watch import Watching
from replview.jobs import drafts
from replview.store.models import AccessRecord, Baseline, MaskRule, Slot, Source, SourceDraft
from tests.support.page_elements import spaced
from tests.support.people import make_user
from tests.support.pooler import pooler
from tests.support.source_databases import SourceDatabase
from tests.support.source_traces import left_on

pytestmark = pytest.mark.django_db

TABLES = (
    "CREATE TABLE orders (id int PRIMARY KEY, email text, note text)",
    "CREATE TABLE audit (at timestamptz, what text)",
)
REVIEW = "review/"


@pytest.fixture
def admin(db) -> Client:
    """A client whose user may add sources."""
    client = Client()
    client.force_login(make_user("root", "admin"))
    return client


def address(source: SourceDatabase, **other: str) -> dict[str, str]:
    """Return the form's data for the address of this source."""
    server = source.server
    return {
        "how": "fields", "host": "127.0.0.1", "port": str(server.port), "database": source.name,
        "user": server.user, "password": server.password, **other,
    }  # fmt: skip


def begin(client: Client, source: SourceDatabase, kind: str = "record", **other: str) -> str:
    """Connect and check; the address of the draft."""
    answer = client.post(f"/sources/new/{kind}/", address(source, **other))
    assert answer.status_code == 302, html.unescape(spaced(answer.content.decode()))
    assert client.get(answer.url).status_code == 200
    return answer.url.removesuffix("check/")


def up_to_review(client: Client, source: SourceDatabase, **columns: str) -> str:
    """All steps with what is usual but for some columns."""
    draft = begin(client, source)
    client.post(f"{draft}tables/", {"through": "tables", "tables": "public.orders\r\npublic.audit"})
    client.post(f"{draft}columns/?table=public.orders", columns)
    options = {"slot_name": "replview", "wal_budget": "10 GB", "baseline": "yes"}
    assert client.post(f"{draft}options/", options).url == f"{draft}{REVIEW}"
    return draft


def shown(client: Client, address: str) -> Any:
    """Return the page that an address shows."""
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.context["page"]


def agree(client: Client, draft: str) -> None:
    """Read the statements and agree to them."""
    answer = client.get(f"{draft}{REVIEW}")
    digest = answer.context["page"].review.digest
    assert f'name="digest" value="{digest}"' in answer.content.decode()
    client.post(f"{draft}{REVIEW}", {"digest": digest})


def remedies_of(checked: Checked) -> list[str]:
    """Return what mends each finding, as a page shows it."""
    return [
        f"{remedy.before} {remedy.run} {remedy.after}"
        for finding in checked.findings
        for remedy in finding.remedies
    ]


def runs_of(checked: Checked) -> list[str]:
    """Return the statements that mend the findings."""
    return [remedy.run for finding in checked.findings for remedy in finding.remedies]


def progress_of(draft: SourceDraft) -> CarriedOut:
    """Return the page of a draft that is carried out, or failed."""
    draft.refresh_from_db()
    return plan_page.carried_out(draft)


def carried_out() -> SourceDraft:
    """Carry out the confirmed draft as a worker does, and return it."""
    draft = drafts.claim(["record", "monitor"])
    assert draft is not None
    # In this test's transaction there is one connection alone: the heartbeats stay away.
    work = onboarding.DraftRun(draft, threading.Event())
    onboarding.act_on(work, onboarding.ACTS[draft.kind])
    draft.refresh_from_db()
    return draft


@pytest.mark.parametrize(
    ("other", "field", "cause"),
    [
        ({"password": "geheim"}, "password", "refused the password of role postgres"),
        ({"database": "nowhere"}, "database", "there is no database nowhere"),
        ({"user": "nobody"}, "password", "refused the password of role nobody"),
        ({"port": "1"}, "host", "no server answers at 127.0.0.1:1"),
        ({"host": "/nowhere"}, "host", "no server listens on a Unix-domain socket"),
        ({"sslmode": "require"}, "sslmode", "offers no TLS"),
        ({"sslrootcert": "/etc/ca.pem"}, "sslrootcert", "pages may not use this file"),
        ({"password": "file:/etc/other"}, "password", "pages may not use this file"),
        ({"password": "env:HOME"}, "password", "pages may not use the environment variable HOME"),
        ({"host": "192.0.2.7"}, "host", "this instance may not connect to the host 192.0.2.7"),
        ({"host": ""}, "host", "the host is missing"),
        ({"port": "x"}, "port", "a port is a number"),
        ({"port": "65536"}, "port", "usually 5432"),
        ({"user": "u" * 2001}, "user", "at most 2000 characters"),
        ({"sslmode": "on"}, "sslmode", "not an sslmode"),
        ({"name": "a/b"}, "name", "no slash"),
    ],
)
def test_each_error_stands_beside_its_field(
    admin: Client, source, settings, other, field, cause
) -> None:
    settings.SERVES_PAGES = True
    settings.SOURCE_HOSTS = ["127.0.0.1", "socket"]
    answer = admin.post("/sources/new/record/", address(source, **other))
    page = html.unescape(spaced(answer.content.decode()))

    assert answer.status_code == 422
    beside = page[page.index(f'id="e-{field}"') :][:400]
    assert cause.lower() in beside.lower()
    focused = re.search(r"<(?:input|select) id=\"f-(\w+)\"[^>]* autofocus", page)
    assert focused
    assert focused[1] == field
    assert other.get("password", source.server.password) not in page
    assert not SourceDraft.objects.exists()


def test_the_password_is_sealed_and_never_shown_again(admin: Client, source) -> None:
    draft = begin(admin, source)
    row = SourceDraft.objects.get()

    assert row.sealed_password
    assert source.server.password not in str(vars(row))
    assert source.server.password not in spaced(admin.get(f"{draft}connection/").content.decode())
    # Empty: it is kept for the same server and role, and goes to no other.
    again = address(source, password="")
    assert admin.post(f"{draft}connection/", again).status_code == 302
    assert admin.post(f"{draft}connection/", {**again, "user": "other"}).status_code == 422


def test_where_the_password_is_kept_stays_when_the_address_is_sent_again(
    admin: Client, source, monkeypatch, settings
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", source.server.password)
    settings.SOURCE_PASSWORDS = {"env:SHOP_PASSWORD": ["127.0.0.1"]}
    draft = begin(admin, source, password="env:SHOP_PASSWORD")

    again = address(source, password="", name="store")
    assert admin.post(f"{draft}connection/", again).status_code == 302
    assert SourceDraft.objects.get().password_ref == "env:SHOP_PASSWORD"
    assert admin.post(f"{draft}connection/", {**again, "user": "other"}).status_code == 422


def test_a_connection_string_does_as_well_and_is_kept_without_its_password(
    admin: Client, source
) -> None:
    sent = {"how": "string", "dsn": source.dsn, "name": "shop"}
    draft = admin.post("/sources/new/watch/", sent).url.removesuffix("check/")
    page = spaced(admin.get(f"{draft}connection/").content.decode())

    assert f"dbname={source.name}" in page
    assert source.server.password not in page


def test_the_half_of_the_address_that_is_hidden_does_not_count(admin: Client, source) -> None:
    sent = {"how": "string", "dsn": source.dsn, "port": "x", "sslmode": "x", "host": ""}
    assert admin.post("/sources/new/record/", sent).status_code == 302
    assert admin.post("/sources/new/record/", address(source, dsn="x" * 2001)).status_code == 302
    refused = admin.post("/sources/new/record/", {**sent, "dsn": "", "name": "shop"})
    assert dict(refused.context["page"].form.errors) == {
        "dsn": ["the connection string is missing. Enter it"]
    }
    assert 'name="name" type="text" value="shop"' in spaced(refused.content.decode())


def test_a_draft_is_its_users_alone_and_expires(admin: Client, source) -> None:
    draft = begin(admin, source)
    other = Client()
    other.force_login(make_user("other", "admin"))

    assert other.get(f"{draft}tables/").url == "/sources/new/?expired"
    assert admin.get(f"{draft}tables/").status_code == 200
    SourceDraft.objects.update(touched_at=timezone.now() - timedelta(hours=25))
    assert admin.get(f"{draft}tables/").url == "/sources/new/?expired"
    assert drafts.forget_expired() == 1


def test_who_is_no_admin_adds_none(source) -> None:
    client = Client()
    client.force_login(make_user("alice", "operator"))

    assert client.get("/sources/new/").status_code == 403
    assert client.post("/sources/new/record/", address(source)).status_code == 403
    assert "Record a database" not in spaced(client.get("/").content.decode())


def test_a_step_is_not_seen_before_those_before_it(admin: Client, source) -> None:
    draft = begin(admin, source)

    assert admin.get(f"{draft}{REVIEW}").url == f"{draft}tables/"
    refused = admin.post(f"{draft}tables/", {"through": "tables"})
    assert refused.status_code == 422
    assert "Choose at least one table." in spaced(refused.content.decode())
    assert admin.post(f"{draft}tables/", {"through": "others"}).status_code == 422


def test_what_lacks_is_said_with_what_mends_it(admin: Client, source) -> None:
    source.run(
        *TABLES,
        "CREATE ROLE poor LOGIN PASSWORD 'geheim'",
        f"GRANT CONNECT ON DATABASE {source.name} TO poor",
    )
    try:
        role = {"user": "poor", "password": "geheim"}
        draft = begin(admin, source, "record", **role)
        page = html.unescape(spaced(admin.get(f"{draft}check/").content.decode()))
        conninfo = drafts.conninfo_of(SourceDraft.objects.get())
        recording = checking.check(conninfo, SourceDraft.Kind.RECORD)
        monitoring = checking.check(conninfo, SourceDraft.Kind.MONITOR)
        step = admin.get(f"{draft}tables/").url
    finally:
        source.run("DROP OWNED BY poor", "DROP ROLE poor")

    assert recording.blocked
    assert 'ALTER ROLE "poor" REPLICATION;' in runs_of(recording)
    assert 'data-copy="ALTER ROLE "poor" REPLICATION;"' in page
    assert step == f"{draft}check/", "what blocks is mended first"
    assert 'GRANT pg_monitor TO "poor";' in runs_of(monitoring)
    told = [*runs_of(monitoring), *(finding.message for finding in monitoring.findings)]
    assert not any("REPLICATION" in text for text in told), "nothing is to be replicated"


def test_through_a_pooler_a_record_goes_on_by_sql_and_a_watch_does_not(
    admin: Client, source
) -> None:
    source.run(*TABLES)
    with pooler(source) as dsn:
        record = checking.check(dsn, SourceDraft.Kind.RECORD)
        watch = checking.check(dsn, SourceDraft.Kind.WATCH)
        sent = {"how": "string", "dsn": dsn}
        step = admin.get(admin.post("/sources/new/record/", sent).url).content.decode()

    assert (record.title, record.blocked, record.sql_only) == (
        "Ready, through SQL functions.", False, True
    )  # fmt: skip
    assert any("through SQL functions instead (in the step Options" in text
               for text in remedies_of(record))  # fmt: skip
    assert (watch.title, watch.blocked) == ("1 thing to fix first.", True)
    told = [*remedies_of(watch), *(finding.message for finding in watch.findings)]
    assert not any("SQL functions" in text for text in told), "a watch has no such option"
    assert "Ready, through SQL functions." in step
    assert "Fix first" not in step


def test_a_deferrable_key_is_told_with_what_does(admin: Client, source) -> None:
    source.run("CREATE TABLE moved (id int, part int, note text, "
               "PRIMARY KEY (id, part) DEFERRABLE)")  # fmt: skip
    answer = admin.get(f"{begin(admin, source)}tables/")
    [row] = answer.context["page"].choice.rows
    assert (row.identity, row.identity_kind) == ("deferrable key", "none")
    mend = row.mend[0][1]
    assert mend.startswith("CREATE UNIQUE INDEX")
    page = html.unescape(spaced(answer.content.decode()))
    assert "deferrable key: inserts only" in page
    assert f'data-copy="{mend}" ' in page

    source.run(*mend.split("; "))
    with connect(source.dsn) as session:
        (table,) = read_tables(session)
    assert table.usable
    assert table.identity_columns == ("id", "part")


def test_names_that_look_personal_are_suggested_and_nothing_more(admin: Client, source) -> None:
    source.run(*TABLES)
    draft = begin(admin, source)
    admin.post(f"{draft}tables/", {"through": "tables", "tables": "public.orders\npublic.audit"})
    with CaptureQueriesContext(connection) as asked:
        answer = admin.get(f"{draft}columns/")

    looks = sum("mask_rule" in one["sql"] for one in asked)
    assert looks < 3, "the rules are not read for each table"
    page = answer.context["page"]
    [email] = page.choice.rows
    assert (email.column, email.looks, email.chosen, email.by_rule) == (
        "email", "a contact", "keep", ""
    )  # fmt: skip
    assert [entry[:2] for entry in page.choice.index] == [("public.audit", 2), ("public.orders", 3)]
    assert not page.asked
    text = spaced(answer.content.decode())
    assert 'name="public.orders|email" value="keep" checked' in text
    assert "autofocus" not in text
    of_orders = spaced(admin.get(f"{draft}columns/?table=public.orders").content.decode())
    assert '<h2 tabindex="-1" autofocus>' in of_orders, "whoever chose a table goes on there"
    assert "masked by a rule" not in text
    MaskRule.objects.create(table_pattern="orders", column_pattern="e*", when="ingest")
    assert [row.by_rule for row in shown(admin, f"{draft}columns/").choice.rows] == ["ingest"]
    assert "masked by a rule" in spaced(admin.get(f"{draft}columns/").content.decode())
    refused = admin.post(f"{draft}columns/", {"public.orders|email": "hide"})
    assert refused.status_code == 422
    assert "email: choose keep, mask or leave out." in spaced(refused.content.decode())
    assert "columns" not in SourceDraft.objects.get().answers
    admin.post(f"{draft}columns/", {"all": "mask"})
    assert SourceDraft.objects.get().answers["columns"] == {"public.orders": {"email": "mask"}}
    assert [looks_like(name) for name in ("userEmail", "postal_code", "id", "status", "name")] == [
        "a contact", "a place", "", "", "",
    ]  # fmt: skip


def test_all_of_it_is_made_and_masks_are_handed_over(admin: Client, source) -> None:
    source.run(*TABLES)
    draft = up_to_review(admin, source, **{"public.orders|email": "mask",
                                           "public.orders|note": "drop"})  # fmt: skip
    agree(admin, draft)
    done = carried_out()
    slot = Slot.objects.get()

    assert (done.state, done.conninfo, done.sealed_password) == ("done", "", "")
    assert str(slot) == f"{source.name}/replview"
    assert slot.column_rules == {"public.orders": {"email": "mask", "note": "drop"}}
    assert slot.publications == ["replview", "replview_inserts"]
    assert left_on(source) == ({"replview", "replview_inserts"}, {"replview"})
    assert Baseline.objects.count() == 2
    records = AccessRecord.objects.filter(user_name="root", action__startswith="changed_")
    assert set(records.values_list("action", flat=True)) == {"changed_source", "changed_slot"}
    assert [line["state"] for line in done.progress] == ["done"] * 5
    progress = shown(admin, f"{draft}progress/")
    assert (progress.work.title, progress.work.moving) == (
        f"{source.name} is being recorded.", True
    )  # fmt: skip
    connects = progress.work.lines[-1].title == "The receiver connects"
    assert progress.following.startswith("/live/?slot=") or connects


def test_options_come_back_as_chosen_and_errors_stand_beside_their_fields(
    admin: Client, source
) -> None:
    source.run(*TABLES)
    draft = up_to_review(admin, source)
    chosen = {
        "slot_name": "shop_1", "wal_budget": "20 GB", "heartbeat": "60", "baseline": "yes",
        "protect": "record", "streaming": "off", "messages": "off", "keep_aborted": "yes",
    }  # fmt: skip
    assert admin.post(f"{draft}options/", chosen).url == f"{draft}{REVIEW}"
    answers = SourceDraft.objects.get().answers
    assert answers["slot_name"] == "shop_1"
    assert answers["options"] == {
        "wal_budget": "20 GB", "heartbeat_seconds": 60, "baseline": True, "protect": "record",
        "streaming": "off", "two_phase": answers["options"]["two_phase"], "messages": "off",
        "origin": "any", "failover": False, "interface": "walsender", "keep_aborted": True,
    }  # fmt: skip
    form = shown(admin, f"{draft}options/").form
    assert {name: str(form[name].value()) for name in chosen} == chosen
    assert form.further_shown

    wrong = {"slot_name": "Shop", "wal_budget": "none", "heartbeat": "1", "protect": "nothing"}
    answer = admin.post(f"{draft}options/", {**chosen, **wrong})
    page = html.unescape(spaced(answer.content.decode()))
    assert answer.status_code == 422
    for field, cause in {
        "slot_name": "A slot name has only lower-case letters",
        "wal_budget": "A slot that replview creates needs a WAL budget",
        "heartbeat": "Enter a number of seconds from",
        "protect": "Choose one of these.",
    }.items():
        assert cause in page[page.index(f'id="e-{field}"') :][:300]
        assert f'aria-describedby="e-{field}"' in page
    assert re.findall(r'id="f-(\w+)"[^>]* autofocus', page) == ["slot_name"]


def test_a_schema_with_a_dot_in_its_name_is_chosen_like_any_other(admin: Client, source) -> None:
    source.run(
        *TABLES, 'CREATE SCHEMA "odd.one" CREATE TABLE orders (id int PRIMARY KEY, note text)'
    )
    draft = begin(admin, source)
    with connect(source.dsn) as session:
        choice = table_choice.read_choice(session)
    assert '"odd.one".orders' in table_choice.TableForm(choice, {}).chosen_tables
    admin.post(f"{draft}tables/", {"through": "tables", "tables": '"odd.one".orders'})
    shown = admin.post(f"{draft}columns/", {"show": '"odd.one".orders'}).url
    assert "/columns/?table=%22odd.one%22.orders" in shown
    admin.post(shown, {'"odd.one".orders|note': "drop"})
    admin.post(f"{draft}options/", {"slot_name": "replview", "wal_budget": "10 GB"})
    agree(admin, draft)
    carried_out()

    slot = Slot.objects.get()
    assert slot.column_rules == {"odd.one.orders": {"note": "drop"}}
    with source.connect() as connection:
        query = "SELECT schemaname, tablename, attnames::text[] FROM pg_publication_tables"
        assert connection.execute(query).fetchall() == [("odd.one", "orders", ["id"])]


def test_tables_and_publications_that_are_gone_are_left_out(admin: Client, source) -> None:
    source.run(*TABLES, "CREATE PUBLICATION theirs FOR TABLE orders")
    address_of = f"{begin(admin, source)}tables/"
    sent: dict[str, Any] = {"through": "publications", "publication": ["gone"]}
    refused = admin.post(address_of, sent)
    assert (refused.status_code, list(refused.context["page"].form.errors)) == (
        422, ["publication"]
    )  # fmt: skip
    admin.post(address_of, {**sent, "publication": ["gone", "theirs"]})
    answers = SourceDraft.objects.get().answers
    assert (answers["publications"], answers["tables"]) == (["theirs"], [])

    admin.post(address_of, {"through": "tables", "table": ["public.gone", "public.orders"]})
    answers = SourceDraft.objects.get().answers
    assert (answers["publications"], answers["tables"]) == ([], ["public.orders"])
    form = shown(admin, address_of).form
    assert (form.chosen_tables, form.summary) == ({"public.orders"}, "1 of 2 tables chosen")


def test_all_tables_also_later_ones_only_where_the_danger_was_seen(admin: Client, source) -> None:
    source.run(*TABLES)
    draft = begin(admin, source)
    address_of, everything = f"{draft}tables/", {"through": "all"}
    answer = admin.get(address_of)
    choice = answer.context["page"].choice
    assert choice.breaking == ("public.audit",)
    assert answer.context["page"].form["breaking"].value() == ""
    seen = choice.breaking_digest
    page = html.unescape(spaced(answer.content.decode()))
    assert "UPDATE and DELETE would fail on the source, for everybody, on 1 table of 2" in page
    assert f'name="breaking" value="{seen}"' in page
    refused = admin.post(address_of, everything)
    assert refused.status_code == 422
    assert list(refused.context["page"].form.errors) == ["breaking"]
    assert "Add a primary key to each" in spaced(refused.content.decode())

    source.run("CREATE TABLE later (at timestamptz)")
    assert admin.post(address_of, {**everything, "breaking": seen}).status_code == 422
    source.run("DROP TABLE later")
    admin.post(address_of, {**everything, "breaking": seen})
    assert shown(admin, address_of).form["breaking"].value() == seen
    columns = shown(admin, f"{draft}columns/?table=public.orders").choice
    assert columns.everything
    assert {row.must_be_sent for row in columns.rows} == {
        "a publication FOR ALL TABLES sends every column"
    }
    admin.post(f"{draft}columns/?table=public.orders", {"public.orders|email": "drop"})
    admin.post(f"{draft}options/", {"slot_name": "replview", "wal_budget": "10 GB"})
    review = shown(admin, f"{draft}{REVIEW}")
    assert ("Tables", "all tables, also future ones") in review.chosen
    notes = " ".join(review.review.notes)
    assert (
        "From then on UPDATE and DELETE fail for everybody on the source, on public.audit" in notes
    )
    agree(admin, draft)
    carried_out()

    assert Slot.objects.get().column_rules == {"public.orders": {"email": "mask"}}
    with source.connect() as connection:
        assert connection.execute("SELECT puballtables FROM pg_publication").fetchall() == [(True,)]


def test_who_is_no_superuser_is_told_why_all_tables_cannot_be(admin: Client, source) -> None:
    source.run(*TABLES, "CREATE ROLE owner LOGIN REPLICATION PASSWORD 'geheim'",
               f"GRANT CREATE ON DATABASE {source.name} TO owner",
               "ALTER TABLE orders OWNER TO owner")  # fmt: skip
    try:
        draft = begin(admin, source, user="owner", password="geheim")
        with connect(drafts.conninfo_of(SourceDraft.objects.get())) as session:
            choice = table_choice.read_choice(session)
        refused = admin.post(f"{draft}tables/", {"through": "all"})
        source.run(f"REVOKE CREATE ON DATABASE {source.name} FROM owner")
        poorer = shown(admin, f"{draft}tables/").choice
    finally:
        source.run("DROP OWNED BY owner", "DROP ROLE owner")

    assert "PostgreSQL requires a superuser, which the role owner is not" in choice.no_everything
    assert (poorer.may_create, poorer.grant) == (
        False, f'GRANT CREATE ON DATABASE "{source.name}" TO "owner";'
    )  # fmt: skip
    assert refused.status_code == 422


def test_other_statements_than_those_shown_are_never_run(admin: Client, source) -> None:
    source.run(*TABLES)
    draft = up_to_review(admin, source)
    refused = admin.post(f"{draft}{REVIEW}", {"digest": "of others"})
    assert (refused.status_code, refused.context["page"].changed) == (409, True)
    assert "The source has changed meanwhile." in spaced(refused.content.decode())
    agree(admin, draft)
    source.run("ALTER TABLE audit ADD PRIMARY KEY (at)")
    done = carried_out()

    assert (done.state, done.problem_code) == ("failed", "changed")
    assert left_on(source) == (set(), set())
    assert not Source.objects.exists()


def test_what_fails_in_the_middle_is_taken_back(admin: Client, source) -> None:
    source.run(*TABLES)
    draft = up_to_review(admin, source)
    agree(admin, draft)
    # A source of that name comes in between: the statements have run when it is noticed.
    Source.objects.create(name=source.name, conninfo="host=elsewhere")
    done = carried_out()

    assert (done.state, done.problem_code) == ("failed", "name_taken")
    assert [line["state"] for line in done.progress[:3]] == ["taken back"] * 3
    assert left_on(source) == (set(), set())
    assert progress_of(done).cause.endswith("Nothing is left on it.")
    assert done.sealed_password, "it can be tried again"
    again = shown(admin, f"{draft}{REVIEW}")
    assert (again.failed, again.changed) == (True, False)
    assert "The last attempt failed" in admin.get(f"{draft}{REVIEW}").content.decode()


def test_what_a_lost_worker_made_is_taken_back(admin: Client, source) -> None:
    source.run(*TABLES)
    agree(admin, up_to_review(admin, source))
    draft = drafts.claim(["record"])
    assert draft is not None
    source.run("CREATE PUBLICATION replview FOR TABLE orders")
    draft.undo = ['DROP PUBLICATION "replview"']
    drafts.beat(draft)
    SourceDraft.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    take_back_lost()
    draft.refresh_from_db()

    assert (draft.state, draft.problem_code, draft.undo) == ("failed", "lost", [])
    assert left_on(source) == (set(), set())


def test_what_cannot_be_taken_back_is_told_with_its_statement(admin: Client, source) -> None:
    source.run(*TABLES)
    address_of = up_to_review(admin, source)
    agree(admin, address_of)
    draft = drafts.claim(["record"])
    assert draft is not None
    draft.undo = ['DROP PUBLICATION "not there"']
    drafts.beat(draft)
    SourceDraft.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    take_back_lost()
    assert progress_of(draft).cause.endswith("Something is left on it, see below.")
    page = html.unescape(spaced(admin.get(f"{address_of}progress/").content.decode()))
    assert 'DROP PUBLICATION "not there"' in page
    assert admin.post(f"{address_of}cancel/").url == "/sources/new/?remains"


def test_what_the_store_has_is_not_taken_back_whatever_its_source_is_called_by_now(
    admin: Client, source
) -> None:
    source.run(*TABLES)
    agree(admin, up_to_review(admin, source))
    draft = drafts.claim(["record"])
    assert draft is not None
    with connect(source.dsn) as connection:
        plan = make_plan(connection, request_of(draft.answers, temporary=False))
    slot = make_slot(drafts.source_for(draft), source.dsn, plan, print, stopped=True, options={},
                     draft=draft)  # fmt: skip
    draft.undo = [step.undo for step in plan.statements]
    drafts.beat(draft)
    Source.objects.update(name="renamed")
    SourceDraft.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    take_back_lost()
    draft.refresh_from_db()

    assert (draft.state, draft.slot, draft.undo) == ("done", slot, [])
    assert slot.name in left_on(source)[1]


def test_what_an_earlier_attempt_left_is_not_forgotten_by_the_next(admin: Client, source) -> None:
    """A watch that fails keeps the undo statements that an earlier attempt left."""
    source.run("CREATE PUBLICATION replview_watch_1 FOR ALL TABLES")
    undo = ['DROP PUBLICATION "replview_watch_1"']
    draft = SourceDraft.objects.create(
        user=User.objects.get(), kind="watch", state="asked", conninfo=source.dsn, undo=undo,
        answers={"name": "shop"},
    )  # fmt: skip
    claimed = drafts.claim(["watch"], draft.pk)
    assert claimed is not None
    DraftRun(claimed, threading.Event()).fail(
        SourceProblem("away", "the source does not answer", "Try")
    )

    assert progress_of(draft).cause.endswith("Something is left on it, see below.")
    assert draft.undo == undo


def test_cancelled_at_any_point_it_leaves_nothing(admin: Client, source) -> None:
    source.run(*TABLES)
    for goes_to in (begin, up_to_review):
        draft = goes_to(admin, source)
        assert admin.post(f"{draft}cancel/").url == "/sources/new/?left"
        assert not SourceDraft.objects.exists()
    agree(admin, draft := up_to_review(admin, source))
    admin.post(f"{draft}cancel/")

    assert drafts.claim(["record"]) is None
    assert left_on(source) == (set(), set())
    assert not Source.objects.exists()


def test_monitoring_adds_the_source_alone(admin: Client, source) -> None:
    draft = begin(admin, source, "monitor", name="shop")
    agree(admin, draft)
    carried_out()

    assert Source.objects.get().name == "shop"
    assert left_on(source) == (set(), set())
    assert progress_page(SourceDraft.objects.get()).following == "/sources/shop/slots/"
    page = spaced(admin.get(f"{draft}progress/").content.decode())
    assert 'data-follow="/sources/shop/slots/"' in page
    assert "<title>Monitor only: shop" in page


def test_a_source_that_is_known_gets_a_slot_without_its_address_again(
    admin: Client, source
) -> None:
    source.run(*TABLES)
    Source.objects.create(name="shop", conninfo=source.dsn)
    begun = admin.get("/sources/new/record/?source=shop")
    assert begun.context["page"].source == Source.objects.get()
    assert "Record the history of shop." in spaced(begun.content.decode())
    draft = admin.post("/sources/new/record/?source=shop").url.removesuffix("check/")
    frame = shown(admin, f"{draft}check/").frame
    assert frame.steps[0].name == "check"
    assert (frame.name, frame.back) == ("shop", "/sources/new/")
    page = spaced(admin.get(f"{draft}check/").content.decode())

    assert "/connection/" not in page
    assert source.server.password not in page
    with connect(source.dsn) as session:
        identifier = read_server_facts(session).system_identifier
    # Whoever enters its address again is told, also as another role.
    Source.objects.update(
        conninfo=f"host=127.0.0.1 port={source.server.port} dbname={source.name} user=other",
        system_identifier=identifier,
    )
    again = admin.get(f"{begin(admin, source)}check/")
    assert again.context["page"].known == "shop"
    assert "This database is the source <b>shop</b> already" in spaced(again.content.decode())
    assert admin.post(f"{draft}check/").url == f"{draft}tables/"


def test_the_health_check_of_a_source(source) -> None:
    client = Client()
    client.force_login(make_user("alice", "operator"))
    source.run(*TABLES)
    Source.objects.create(name="shop", conninfo=source.dsn)
    checked = checking.check(source.dsn)
    assert not checked.blocked
    assert any('ALTER TABLE "public"."audit" ADD PRIMARY KEY' in run for run in runs_of(checked))

    answer = client.get("/sources/shop/doctor/")
    assert answer.context["page"].checked.findings == checked.findings
    page = html.unescape(spaced(answer.content.decode()))
    assert "shop can be replicated." in page
    assert 'ALTER TABLE "public"."audit" ADD PRIMARY KEY' in page
    assert source.server.password not in page


def test_the_steps_lead_as_far_as_is_answered(admin: Client, source) -> None:
    source.run(*TABLES)
    draft = begin(admin, source)
    admin.post(f"{draft}tables/", {"through": "tables", "tables": "public.orders"})
    frame = frame_of("record", "columns", SourceDraft.objects.get())

    assert [(step.number, step.word, step.state) for step in frame.steps] == [
        (1, "Connection", "done"), (2, "Check", "done"), (3, "Tables", "done"),
        (4, "Columns", "current"), (5, "Options", "later"), (6, "Review", "later"),
    ]  # fmt: skip
    assert [step.url for step in frame.steps][3:] == [f"{draft}columns/", "", ""]
    assert (frame.back, frame.name, frame.words.title) == (
        f"{draft}tables/", source.name, "Record history"
    )  # fmt: skip
    assert source.server.password not in frame.place
    page = spaced(admin.get(f"{draft}columns/").content.decode())
    assert "Step 4 of 6" in page
    assert f'href="{draft}tables/">Back' in page
    assert f'formaction="{draft}cancel/"' in page


def test_what_was_begun_is_offered_again(admin: Client, source) -> None:
    source.run(*TABLES)
    draft = begin(admin, source, name="<b>shop<b>")
    [begun] = shown(admin, "/sources/new/").begun
    assert (begun.draft, begun.words.title, begun.url) == (
        SourceDraft.objects.get(), "Record history", f"{draft}tables/"
    )  # fmt: skip
    for word in ("expired", "left", "remains"):
        assert shown(admin, f"/sources/new/?{word}").notice == word

    page = spaced(admin.get("/sources/new/?left").content.decode())
    assert "Record history: &lt;b&gt;shop&lt;b&gt;" in page
    assert f'href="{draft}tables/"' in page
    assert "Cancelled. Nothing is left" in page
    assert "Record a database" in page


def test_a_source_that_does_not_answer_keeps_the_step(admin: Client, source) -> None:
    draft = begin(admin, source)
    SourceDraft.objects.update(conninfo="host=127.0.0.1 port=1 dbname=x user=y")
    answer = admin.get(f"{draft}tables/")

    assert answer.status_code == 502
    page = answer.context["page"]
    assert "no server answers at 127.0.0.1:1" in page.trouble.cause
    assert page.frame.name == source.name
    assert f"{source.name} does not answer now." in spaced(answer.content.decode())


def test_names_of_tables_are_escaped_in_each_step(admin: Client, source) -> None:
    evil = "<b>x</b>"
    source.run(f'CREATE TABLE "{evil}" (id int PRIMARY KEY, "email{evil}" text)',
               f'CREATE TABLE "no key {evil}" (a int)',
               f'CREATE PUBLICATION "{evil}" FOR TABLE "{evil}"')  # fmt: skip
    draft = begin(admin, source, name="<b>s<b>")
    table = shown(admin, f"{draft}tables/").choice.rows[0].name
    assert evil in table
    pages = [admin.get(f"{draft}{step}/") for step in ("connection", "check", "tables")]
    admin.post(f"{draft}tables/", {"through": "tables", "tables": table})
    pages += [admin.get(f"{draft}columns/"), admin.get(f"{draft}columns/", {"table": table})]
    admin.post(f"{draft}columns/", {})
    pages += [admin.get(f"{draft}options/")]
    admin.post(f"{draft}options/", {"slot_name": "replview", "wal_budget": "10 GB"})
    pages += [admin.get(f"{draft}{REVIEW}")]
    agree(admin, draft)
    pages += [admin.get(f"{draft}progress/")]

    for answer in pages:
        page = answer.content.decode()
        assert answer.status_code == 200, answer
        assert evil not in page
        assert "<b>s<b>" not in page
        assert "&lt;b&gt;" in page


def texts_in(node: ast.AST) -> Iterator[str]:
    """String constants; what is formatted into one is a name."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(getattr(part, "value", "")) if isinstance(part, ast.Constant) else "name"
                      for part in node.values)  # fmt: skip
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from texts_in(child)


def test_no_sentence_of_a_library_names_an_option_of_a_command() -> None:
    folders = [Path(package.__file__).parent for package in (replview.catalog, replview.acts)]
    told = [
        text
        for folder in folders
        for path in folder.rglob("*.py")
        for text in texts_in(ast.parse(path.read_text()))
    ]

    assert len(told) > 1000
    assert not [text for text in told if re.search(r"(?<![-\w])--[a-z]", text)]


@pytest.mark.django_db(transaction=True)
def test_a_watch_of_a_database_with_a_slash_in_its_name_has_pages() -> None:
    plan = SlotPlan(slot_name="replview_watch_0123abcd", publications=("theirs",))
    watching = Watching("host=h dbname=a/b", plan, {}, print, None)

    with watching.registered() as slot:
        assert reverse("source", args=[slot.source.name])
    assert not Source.objects.exists(), "nothing is left of a watch"
