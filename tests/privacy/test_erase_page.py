"""The page: looked at before it is confirmed, confirmed by what was found, its keys nowhere."""

import datetime as dt
import re
import threading

import pytest
from django.test import Client

from replview.access.visibility import forget
from replview.features.erasure import job as serving
from replview.features.erasure import queue as erasing
from replview.store.connecting import connect_store
from replview.store.models import AccessRecord, Change, Erasure, MaskRule
from replview.store.read.rows import signed_hash
from replview.store.write.partitions import ensure_partitions
from tests.support.history_rows import History, insert
from tests.support.people import make_user
from tests.support.searching import columns_holding

PLANTED = "PLANTED@example.com"


@pytest.fixture
def history(transactional_db) -> History:
    """Two people's rows."""
    today = dt.datetime.now(dt.UTC).date()
    with connect_store() as session:
        ensure_partitions(session, today, today)
    history = History()
    for name in (PLANTED, "bob"):
        history.commit(
            {**insert(1), "new": {"id": name, "status": "new", "note": None},
             "key_hash": signed_hash([name])},
        )  # fmt: skip
    return history


@pytest.fixture
def admin(history: History) -> Client:
    """An admin's browser."""
    client = Client()
    client.force_login(make_user("ada", "admin"))
    return client


def worked() -> None:
    """Claim and carry out one erasure request, as a worker does."""
    claim = erasing.claim()
    assert claim is not None
    serving.carry_out(claim, threading.Event())


FORM = {"slot": "shop/replview", "rows": f"public.orders {PLANTED}\n", "why": "by post"}


@pytest.mark.slow
def test_an_admin_looks_confirms_and_the_key_is_forgotten(admin: Client) -> None:
    address = admin.post("/privacy/erase/", FORM)["Location"]
    assert PLANTED not in address
    assert "Counting what it would erase" in admin.get(address).text
    worked()
    page = admin.get(address).text
    assert "This would erase 1 change for good." in page
    assert PLANTED not in page
    wrong = admin.post(f"{address}confirm/", {"typed": "erase 2"})
    assert wrong.status_code == 422
    assert "type erase 1 to confirm" in wrong.text
    admin.post(f"{address}confirm/", {"typed": "erase 1"})
    worked()
    assert "Erased: 1 change." in admin.get(address).text
    assert "by post" in admin.get("/privacy/erase/").text
    assert columns_holding(PLANTED) == []
    assert sorted(Change.objects.values_list("new__id", flat=True), key=str)[0] == "bob"
    records = AccessRecord.objects.filter(action="erased")
    assert [row.user_name for row in records] == ["ada", "ada"]
    first = Change.objects.order_by("transaction_id")[0].transaction_id
    shown = admin.get(f"/transactions/{first}/")
    assert "erased on " in shown.text
    undo = admin.get(f"/transactions/{first}/changes/1/undo/")
    assert (undo.status_code, "erased on " in undo.text) == (409, True)
    rows = admin.get(f"/rows/?slot=shop/replview&table=public.orders&key.id={PLANTED}")
    assert rows.status_code == 200
    assert admin.get("/rows/?slot=shop/replview&table=public.orders&key.id=bob").status_code == 200


@pytest.mark.slow
def test_what_cannot_be_meant_is_said_without_a_key(admin: Client) -> None:
    for rows, said in (
        ("public.nowhere 1", "no change of a table public.nowhere is recorded"),
        ("public.orders", "line 1 names a table and no key"),
        ("", "nothing is named"),
    ):
        page = admin.post("/privacy/erase/", {**FORM, "rows": rows})
        assert page.status_code == 422
        assert said in page.text.lower() or said.capitalize() in page.text
        assert 'aria-invalid="true" aria-describedby="id_rows_helptext id_rows_error"' in page.text
    assert not Erasure.objects.exists()


@pytest.mark.slow
def test_a_look_that_nobody_confirms_is_forgotten(admin: Client) -> None:
    address = admin.post("/privacy/erase/", FORM)["Location"]
    worked()
    Erasure.objects.update(heartbeat_at="2020-01-01T00:00:00Z")
    erasing.forget_unconfirmed()
    row = Erasure.objects.get()
    assert (row.state, row.sealed_plan) == (Erasure.State.DROPPED, "")
    assert admin.post(f"{address}confirm/", {"typed": "erase 1"}).status_code == 302
    row.refresh_from_db()
    assert row.state == Erasure.State.DROPPED


@pytest.mark.slow
def test_a_look_at_a_masked_key_tells_nothing_of_what_it_found(admin: Client) -> None:
    MaskRule.objects.create(table_pattern="*", column_pattern="id", when="display")
    forget()
    pages = []
    for key in (PLANTED, "nobody@nowhere"):
        rows = f"public.orders {key}\npublic.orders another"
        address = admin.post("/privacy/erase/", {**FORM, "rows": rows})["Location"]
        worked()
        page = admin.get(address).text
        # Drop the parts that differ on every page: times, tokens, the act's number and its digests.
        pages.append(re.sub(
            r"\d{4}-\d\d-\d\d.\d\d:\d\d:\d\d(\.\d+)?|<time.*?</time>|<li>[0-9a-f]{32}</li>"
            r"|<input type=\"hidden\"[^>]*>|erase/\d+|Erasure \d+|X-CSRFToken[^}]*}", "", page
        ))  # fmt: skip
    assert pages[0] == pages[1]
    assert "its rows are counted only when they are erased for good." in pages[0]
    first = Erasure.objects.earliest("pk")
    admin.post(f"/privacy/erase/{first.pk}/confirm/", {"typed": "erase 2"})
    worked()
    assert "Erased: 1 change." in admin.get(f"/privacy/erase/{first.pk}/").text
    assert columns_holding(PLANTED) == []
    forget()
