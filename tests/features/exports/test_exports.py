"""The export pages: the sentence, the verdict, what they refuse, and what they record."""

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from replview.access.rights import Role, set_role
from replview.features.exports import outlook
from replview.store import instance_settings
from replview.store.models import Export
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.page_elements import spaced
from tests.support.people import make_user


@pytest.fixture
def history(transactional_db, settings, tmp_path) -> History:
    """Two transactions of orders, committed, where another connection sees them too."""
    settings.DATA_DIR = tmp_path
    make_partitions()
    made = History()
    made.commit(insert(1), insert(2), relations={str(made.orders.relation_id): [2, 0, 0, 0]})
    made.commit(insert(3), actor="alice")
    return made


@pytest.fixture
def client(history: History) -> Client:
    """Signed in, an operator."""
    client = Client()
    client.force_login(make_user("alice"))
    return client


def verdict(page: str) -> str:
    """The sentence over the page."""
    return " ".join(re.sub(r"<[^>]*>", " ", page.split("<h1>")[1].split("</h1>")[0]).split())


def test_the_address_is_the_sentence(history: History, client: Client) -> None:
    page = client.get("/exports/").content.decode()
    assert verdict(page).startswith("Ready: 3 rows, about")
    assert ">public.orders</td>" in page

    page = client.get("/exports/?slot=shop/replview&actor=alice&ops=I&to=mine").content.decode()
    assert verdict(page).startswith("Ready: 1 row, about")
    assert 'value="alice"' in page
    assert str(Path("exports") / "mine") in page

    page = client.get("/exports/?since=2030-01-01T00:00:00Z").content.decode()
    assert verdict(page).startswith("Empty slice:")
    assert 'aria-disabled="true"' in page
    page = client.get("/exports/?q=ALICE&min_changes=1&actor=%3F").content.decode()
    assert verdict(page).startswith("Empty slice:")
    page = client.get("/exports/?q=ALICE&min_changes=1").content.decode()
    assert verdict(page).startswith("Ready: 1 row, about")
    # Carried on by the sentence's form, and taken off by its chip.
    assert '<input type="hidden" name="q" value="ALICE">' in page
    assert 'href="/exports/?slot=shop/replview&amp;min_changes=1"' in page
    page = client.get("/exports/?where=status+%3D+new").content.decode()
    assert "an export is not narrowed by a condition on values" in verdict(page)
    page = client.get("/exports/?states=open").content.decode()
    assert verdict(page).startswith("This slice cannot be exported: no export is of transactions")

    page = client.get('/exports/?actor="><script>x</script>&to="><i>').content.decode()
    assert "<script>x" not in page
    assert "<i>" not in page


def test_a_target_outside_of_the_folder_is_an_admins_alone(
    history: History, client: Client
) -> None:
    page = client.get("/exports/?to=/etc").content.decode()
    assert verdict(page).startswith("This target cannot be written to:")
    refused = client.post("/exports/new/", {"slot": "shop/replview", "to": "../x"})
    assert refused.status_code == 422
    assert not Export.objects.exists()

    set_role(User.objects.get(username="alice"), Role.ADMIN)
    assert "Ready:" in verdict(client.get("/exports/?to=/tmp/elsewhere").content.decode())


def test_what_is_asked_for_is_tried_recorded_and_cancelled(
    history: History, client: Client, tmp_path: Path
) -> None:
    words = {"slot": "shop/replview", "actor": "alice", "to": "mine"}
    page = client.post("/exports/test/", words, follow=True).content.decode()
    assert "test write passed" in page
    assert not (tmp_path / "exports" / "mine").exists()

    answer = client.post("/exports/new/", words)
    row = Export.objects.get()
    assert answer["Location"] == f"/exports/{row.pk}/"
    assert (row.state, row.requested_by, row.requested_how) == ("waiting", "alice", "page")
    assert row.target == str(tmp_path / "exports" / "mine")
    assert row.slice["actors"] == ["alice"]
    assert "Waiting for a worker" in client.get(answer["Location"]).content.decode()

    client.post(f"/exports/{row.pk}/cancel/")
    assert "Cancelled" in client.get(answer["Location"]).content.decode()
    assert f'href="/exports/{row.pk}/"' in client.get("/exports/all/").content.decode()


def test_a_switch_forbids_all_of_it(history: History, client: Client) -> None:
    instance_settings.write("exports.allowed", False, "root")
    assert "Exports are switched off." in client.get("/exports/").content.decode()
    refused = client.post("/exports/new/", {"slot": "shop/replview", "to": "mine"})
    assert refused.status_code == 422
    assert "exports are switched off on this instance" in refused.content.decode()
    # Nor may anybody but an admin allow them again.
    assert client.post("/exports/allowed/", {"allowed": "1"}).status_code == 403


def test_what_cannot_be_counted_soon_can_be_exported(
    history: History, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlook, "_BUDGET", "20ms")
    monkeypatch.setattr(outlook, "estimate", lambda store, _: store.execute("SELECT pg_sleep(9)"))
    page = client.get("/exports/").content.decode()
    assert verdict(page).startswith("Ready, rows unknown: counting this slice takes longer than")
    assert '<span class="unknown">unknown</span> counted while it runs' in spaced(page)
    answer = client.post("/exports/new/", {"slot": "shop/replview", "to": "mine"})
    assert answer["Location"] == f"/exports/{Export.objects.get().pk}/"


def test_files_and_values_that_were_not_sent_are_told_before(
    history: History, client: Client
) -> None:
    key = str(history.orders.relation_id)
    paid = {"op": "U", "new": {"id": "3", "status": "paid"}}
    history.commit(paid, relations={key: [0, 1, 0, 0]})
    stock = history.table("stock", 16385, ["id", "at"])
    history.commit({"op": "I", "new": {"id": "1", "at": "x"}, "version": stock})
    page = " ".join(client.get("/exports/").content.decode().split())
    assert "not sent 1 time, see _not_sent" in page
    orders = page.split(">public.orders</td>")[1].split("</tr>")[0]
    assert re.findall(r'<td class="num">\s*(.*?)\s*</td>', orders)[::2] == ["4", "1"]
    transactions = page.split(">transactions</td>")[1].split("</tr>")[0]
    rows, size, files = re.findall(r'<td class="num">\s*(.*?)\s*</td>', transactions)
    assert (rows, files) == ("4", "1")
    assert "kB" in size

    # The programs are of one table, chosen by the address.
    assert "public.orders" in page.split('id="snippets-title"')[1].split("</summary>")[0]
    page = client.get("/exports/?read=public.stock").content.decode()
    assert "/shop/replview-1/public.stock" in page.split('id="snippets-title"')[1]
    assert "/shop/replview-1/public.orders" not in page.split('id="snippets-title"')[1]
    assert "Have the table as of" in page
    # Of a part of the changes there is no table.
    page = client.get("/exports/?ops=I").content.decode()
    assert "Have the table as of" not in page
    assert "the slice is narrowed" in page
