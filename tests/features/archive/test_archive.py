"""Pages read transactions and row changes that the store deleted from the archive."""

import re
import threading
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client

from replview.acts.sources import rename_source
from replview.features.archive import job as archiving
from replview.store import instance_settings
from replview.store.models import Transaction
from replview.store.read.rows import signed_hash
from replview.store.retention import deletion as retention
from replview.store.write.partitions import ensure_partitions
from tests.support.archive_here import archive_here
from tests.support.days import Days, days_ago, row, the, today
from tests.support.people import make_user

pytestmark = pytest.mark.slow


@pytest.fixture
def deleted(transactional_db, tmp_path: Path, monkeypatch) -> Days:
    """Row 40 was inserted on a day that is deleted, and updated on one that is kept."""
    ensure_partitions(connection.connection or _connected(), days_ago(4).date(), today().date())
    history = Days()
    history.incarnation.started_at = days_ago(4, 1)
    history.on(days_ago(4, 2), row(40), row(41), actor="<bo>", actor_grade="claimed",
               actors=[{"seq": 0, "actor": "<ann>", "grade": "stamped"},
                       {"seq": 2, "actor": "<bo>", "grade": "claimed"}],
               context={"request": "r-1"}, origin="north",
               relations={str(history.orders.relation_id): [2, 0, 0, 0]})  # fmt: skip
    update = {"op": "U", "new": {"id": "40", "status": "<paid>", "note": None},
              "key_hash": signed_hash(("40",))}  # fmt: skip
    history.on(days_ago(1, 2), update, relations={str(history.orders.relation_id): [0, 1, 0, 0]})
    Transaction.objects.update(stored_at=days_ago(1, 3))
    history.slot.last_commit_time = days_ago(1, 2)
    history.slot.save()
    instance_settings.write("archive.target", str(tmp_path / "archive"), "somebody")
    instance_settings.write("archive.after_hours", 0, "somebody")
    archive_here(monkeypatch)
    assert archiving.work_off(threading.Event()) == 1
    return history


def _connected():
    connection.ensure_connection()
    return connection.connection


@pytest.fixture
def ann() -> Client:
    client = Client()
    client.force_login(make_user("ann", "admin"))
    return client


def test_the_archive_answers_what_the_store_deleted(deleted: Days, ann: Client, tmp_path) -> None:
    gone = Transaction.objects.get(commit_seq=1).pk
    history_of_row = "/rows/?slot=shop/replview&table=public.orders&key.id=40"
    assert "from the archive" not in ann.get(history_of_row).content.decode()
    assert retention.drop_day(the(4)) is not None

    answer = ann.get(f"/transactions/{gone}/")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "From the archive: it was deleted from the store." in page
    assert page.count("&lt;ann&gt;, &lt;bo&gt;") == 2
    assert "2 inserts" in page
    assert "north" in page
    assert "r-1" in page
    assert page.count('class="block change') == 2
    assert ">40<" in page

    page = ann.get(history_of_row).content.decode()
    assert "in the archive since" in page
    [link] = re.findall(r'href="(/archive/row/[^"]+)"', page)
    answer = ann.get(link.replace("&amp;", "&"))
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "2 changes on this page, newest first" in page
    assert page.index("&lt;paid&gt;") < page.index("&lt;ann&gt;")

    # Each leads to its transaction: in the store, where it has it, else in the archive.
    links = [
        one.replace("&amp;", "&") for one in re.findall(r'"(/archive/transaction/[^"]+)"', page)
    ]
    kept = Transaction.objects.get(commit_seq=2).pk
    assert ann.get(links[0])["Location"] == f"/transactions/{kept}/"
    assert "From the archive" in ann.get(links[1]).content.decode()
    for missing in ("slot=shop/replview&seq=9", "slot=shop/other&seq=1"):
        assert ann.get(f"/archive/transaction/?incarnation=1&{missing}").status_code == 404
    # Links of earlier releases name the incarnation ``life``.
    former = links[1].replace("incarnation=", "life=")
    assert "From the archive" in ann.get(former).content.decode()
    assert ann.get("/archive/row/?slot=shop/replview&table=public.orders").status_code == 404
    assert Client().get(f"/transactions/{gone}/").status_code == 302

    # Its files stay under the name that the source had.
    rename_source(deleted.slot.source, "store", by="ann")
    assert "From the archive" in ann.get(f"/transactions/{gone}/").content.decode()
    link = link.replace("&amp;", "&").replace("slot=shop/", "slot=store/")
    assert "2 changes on this page" in ann.get(link).content.decode()

    # An archive that is away says so.
    (tmp_path / "archive").rename(tmp_path / "away")
    answer = ann.get(f"/transactions/{gone}/")
    assert answer.status_code == 503
    assert "do not contain this transaction" in answer.content.decode()
