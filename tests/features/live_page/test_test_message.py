"""*Send a test message*: it reaches the source's WAL, or says why it did not."""

import html

import pytest
from django.test import Client

from replview.catalog.test_message import statement
from replview.features.live_page.views import build_live_page
from replview.store.models import Relation, Slot, Source

pytestmark = pytest.mark.django_db


@pytest.fixture
def slot(source) -> Slot:
    """A slot of a real source."""
    shop = Source.objects.create(name="shop", conninfo=source.dsn)
    return Slot.objects.create(source=shop, name="replview")


#: The statement that the button runs for the account alice.
STATEMENT = (
    """SELECT pg_logical_emit_message(true, 'replview', '{"actor": "alice", "test": true}');"""
)


def test_the_page_says_which_statement_the_button_runs(slot: Slot) -> None:
    assert statement("alice") == STATEMENT
    assert build_live_page(slot, by="alice").test_statement == STATEMENT


def test_the_filters_offer_what_the_slot_has(slot: Slot) -> None:
    for oid, schema, table in ((1, "public", "orders"), (2, "public", "orders"), (3, "a", "<b>")):
        Relation.objects.create(
            slot=slot, system_identifier="1", oid=oid, schema=schema, table=table
        )
    page = build_live_page(slot, by="alice")
    assert page.tables == ["a.<b>", "public.orders"]
    assert ("I", "inserts") in page.operations
    assert {"streaming", "committed", "rolled back"} <= set(page.states)
    assert page.watch is None


def test_the_page_renders(signed_in: Client, slot: Slot) -> None:
    Relation.objects.create(slot=slot, system_identifier="1", oid=1, schema="a", table="<b>")
    page = signed_in.get("/live/").content.decode()
    assert f'data-socket="/ws/live/{slot.pk}/" data-slot="shop/replview"' in page
    assert '<input type="checkbox" value="a.&lt;b&gt;">' in page
    assert f'data-copy="{STATEMENT}"' in html.unescape(page)
    assert f'action="/live/{slot.pk}/test-message/"' in page


def test_it_runs_that_statement_on_the_source(signed_in: Client, slot: Slot, source) -> None:
    source.run("SELECT pg_create_logical_replication_slot('listener', 'pgoutput')")
    answer = signed_in.post(f"/live/{slot.pk}/test-message/")
    with source.connect() as connection:
        messages = connection.execute(
            "SELECT data FROM pg_logical_slot_peek_binary_changes('listener', NULL, NULL,"
            " 'proto_version', '1', 'publication_names', 'none', 'messages', 'true')"
            " WHERE get_byte(data, 0) = ascii('M')"
        ).fetchall()

    assert answer.status_code == 200
    assert "/" in answer.json()["lsn"]
    ((message,),) = messages
    assert b"replview\x00" in message
    assert message.endswith(b'{"actor": "alice", "test": true}')


def test_a_right_that_is_missing_is_named_with_the_grant(
    signed_in: Client, slot: Slot, source
) -> None:
    source.run(
        "REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text, boolean)"
        " FROM PUBLIC",
        "CREATE ROLE sender LOGIN PASSWORD 'geheim'",
    )
    dsn = source.server.dsn(source.name, user="sender", password="geheim")
    Source.objects.update(conninfo=dsn)
    told = signed_in.post(f"/live/{slot.pk}/test-message/")
    source.run("DROP ROLE sender")

    assert told.status_code == 502
    assert told.json()["cause"] == "role sender may not send logical messages"
    assert told.json()["run"] == (
        "GRANT EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text, boolean)"
        ' TO "sender";'
    )


def test_a_source_that_cannot_be_reached_is_told_without_its_password(
    signed_in: Client, slot: Slot
) -> None:
    Source.objects.update(conninfo="host=127.0.0.1 port=1 user=u password=geheim dbname=d")
    told = signed_in.post(f"/live/{slot.pk}/test-message/")

    assert told.status_code == 502
    assert told.json()["cause"] == "no server answers at 127.0.0.1:1"
    assert "geheim" not in told.content.decode()


def test_it_is_a_post_of_somebody_signed_in_with_a_token(signed_in: Client, slot: Slot) -> None:
    path = f"/live/{slot.pk}/test-message/"
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = signed_in.cookies

    assert signed_in.get(path).status_code == 405
    assert strict.post(path).status_code == 403
    assert Client().post(path).status_code == 302
