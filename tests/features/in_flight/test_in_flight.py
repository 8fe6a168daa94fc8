"""The in-flight page: what it says of what is open, what it asks the store, and how often."""

import re
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext

from decoder.scalars import LSN
from replview.features.in_flight.filters import InFlightQuery
from replview.features.in_flight.page import read_scope
from replview.features.in_flight.queries import Aborted
from replview.features.in_flight.views import (
    Blocked,
    Chosen,
    InFlightPage,
    build_page,
    read_chosen,
)
from replview.health.open_transactions import ends_of_prepared
from replview.health.states import Level
from replview.store.models import (
    AbortedSubtransaction,
    Relation,
    SlotSample,
    Source,
    SourceLook,
    Transaction,
    Transition,
)
from tests.support.page_elements import EVIL, plain, text_of
from tests.support.scene import MB, Scene


def look(scene: Scene, source: str, **values) -> SourceLook:
    """Store a look at a source, taken two seconds ago."""
    known = {"looked_at": scene.now - timedelta(seconds=2), "prepared": [], "running": [],
             "holders": {"next_xid": 90_300_000, "may_read_stats": True, "standbys": [],
                         "waiting": {}, "logical_decoding_work_mem_bytes": 64 * MB,
                         "slots": {}}}  # fmt: skip
    return SourceLook.objects.create(source=scene.sources[source], **(known | values))


def prepared_there(row: Transaction, **values) -> dict:
    """A row of pg_prepared_xacts, as sampled."""
    at = row.prepared_at.isoformat() if row.prepared_at else None
    known = {"gid": row.gid, "xid": row.xid, "prepared_at": at, "owner": "crm_batch",
             "database": "crm"}  # fmt: skip
    return known | values


@pytest.fixture
def batch(scene: Scene) -> Transaction:
    """The forgotten one on crm."""
    return Transaction.objects.get(gid="crm_batch_20261119_2")


def page_of(query: str = "") -> InFlightPage:
    return build_page(InFlightQuery.from_words(QueryDict(query)))


def chosen(row: Transaction) -> Chosen:
    """Return the transaction as the drawer tells it."""
    found = read_chosen(row.pk, read_scope(InFlightQuery()))
    assert found is not None
    return found


def names(query: str = "") -> list[str]:
    """Return the names of the open transactions that an address lists, in order."""
    return [row.transaction.name for row in page_of(query).content.rows]


def test_the_page_renders(signed_in: Client, batch: Transaction, scene: Scene) -> None:
    look(scene, "crm", prepared=[prepared_there(batch)])
    answer = signed_in.get("/in-flight/")

    said = plain(answer)
    assert (
        "5 open: 2 streaming, 3 prepared. crm_batch_20261119_2 , prepared for 9 h 12 min ." in said
    )
    assert "It holds 4.1 GB of WAL. Next: commit it or roll it back." in said
    page = text_of(answer)
    assert 'data-copy="COMMIT PREPARED &#x27;crm_batch_20261119_2&#x27;;"' in page
    assert 'data-copy="ROLLBACK PREPARED &#x27;crm_batch_20261119_2&#x27;;"' in page
    assert "connected to database crm. replview never runs this." in said
    assert said.index("479418") < said.index("481833")
    assert said.index("crm_batch_20261119_2", 900) < said.index("pos_settle_20261120_05")


def test_the_oldest_prepared_one_is_the_sentence_with_both_of_its_ends(
    batch: Transaction, scene: Scene
) -> None:
    look(scene, "crm", prepared=[prepared_there(batch)])
    sentence = page_of().sentence

    assert sentence.title == "5 open: 2 streaming, 3 prepared."
    assert (sentence.name, sentence.doing) == ("crm_batch_20261119_2", "prepared for")
    assert sentence.since == batch.prepared_at
    assert sentence.rest.replace("\xa0", " ") == "It holds 4.1 GB of WAL."
    assert sentence.next == "commit it or roll it back."
    assert [statement.sql for statement in sentence.statements] == [
        "COMMIT PREPARED 'crm_batch_20261119_2';",
        "ROLLBACK PREPARED 'crm_batch_20261119_2';",
    ]
    assert sentence.where == "Run it on crm, connected to database crm."
    assert (sentence.level, sentence.chosen) == (Level.LOOK, batch.pk)


def test_rows_stand_oldest_first_with_what_they_changed(signed_in: Client, scene: Scene) -> None:
    orders = Relation.objects.create(
        slot=scene.slots["shop/replview"], system_identifier="1", oid=1, schema="public",
        table="price_list",
    )  # fmt: skip
    row = Transaction.objects.get(xid=479418)
    row.relations = {str(orders.pk): [0, 186_400, 0, 0]}
    row.aborted_changes = 12_088
    row.save()
    AbortedSubtransaction.objects.create(transaction_id=row.pk, subxid=479419, changes=12_088)
    AbortedSubtransaction.objects.create(transaction_id=row.pk, subxid=479418, changes=0)
    content = page_of().content

    assert [one.transaction.xid for one in content.streaming] == [479418, 481833]
    first = content.streaming[0]
    assert first.aborted == Aborted(subtransactions=1, counted=True)
    assert first.transaction.aborted_changes == 12_088
    assert [(table.name, table.operations) for table in first.tables] == [
        ("price_list", [("U", 186_400)])
    ]
    gids = [str(one.transaction.gid) for one in content.prepared]
    assert gids.index("crm_batch_20261119_2") < gids.index("pos_settle_20261120_05")
    said = plain(signed_in.get("/in-flight/"))
    assert "1 subtransaction rolled back, with 12,088 changes" in said
    assert "price_list U update 186,400" in said


def test_filters_stand_in_the_address_and_hide_the_rest(scene: Scene) -> None:
    for query, shown, hidden in (
        ("slot=crm/replview", "crm_batch", "pos_settle"),
        ("source=shop", "pos_settle", "crm_batch"),
        ("state=streaming", "479418", "20261120_07"),
        ("older=60", "479418", "481833"),
        ("q=settle", "pos_settle", "479418"),
        ("q=481833", "481833", "pos_settle"),
    ):
        rows = " ".join(names(query))
        assert shown in rows, query
        assert hidden not in rows, query
    assert page_of("older=60&q=settle").content.filters.query == "older=60&q=settle"


def test_a_filter_nothing_passes_says_so_and_a_slot_there_is_not_is_404(
    signed_in: Client, scene: Scene
) -> None:
    page = page_of("q=nobody")
    assert (page.sentence.title, page.content.whole.open) == ("Nothing matches.", 5)
    assert page.sentence.rest == "5 transactions not shown."
    assert names("q=nobody") == []

    assert signed_in.get("/in-flight/?slot=shop/nobody").status_code == 404
    assert signed_in.get("/in-flight/?older=x&state=odd&tx=no&rows=-1").status_code == 200


def test_none_says_when_they_would_appear(signed_in: Client, scene: Scene) -> None:
    look(scene, "warehouse")
    page = page_of("source=warehouse")
    assert page.sentence.title == "No transaction is in flight."
    assert page.work_mem.replace("\xa0", " ") == "64 MB on this source"

    said = plain(signed_in.get("/in-flight/?source=warehouse"))
    assert (
        "None Transactions appear here once prepared, or past logical_decoding_work_mem "
        "(64 MB on this source)." in said
    )
    said = plain(signed_in.get("/in-flight/?q=nobody"))
    assert "5 open, none matches the filters." in said


def test_without_any_slot_it_says_what_to_do(signed_in: Client) -> None:
    sentence = page_of().sentence
    assert (sentence.title, sentence.next) == (
        "Nothing is recorded yet.", "add a source and a slot.",
    )  # fmt: skip
    assert "Nothing is recorded yet." in plain(signed_in.get("/in-flight/"))


@pytest.mark.parametrize(
    ("seconds", "prepared", "word", "sentence"),
    [
        (2, True, "yes", r"still prepared, \d s ago"),
        (2, False, "gone", r"gone when checked \d s ago ; its end has not been received yet"),
        (90, True, "unknown", r"unknown : present when last checked, 1 min 3\d s ago"),
        (None, True, "unknown", "unknown: not checked yet"),
    ],
)
def test_whether_it_is_still_on_the_source_is_told_as_last_seen(
    signed_in: Client, batch: Transaction, scene: Scene, seconds, prepared, word, sentence
) -> None:
    if seconds is not None:
        rows = [prepared_there(batch)] if prepared else []
        look(scene, "crm", prepared=rows, looked_at=scene.now - timedelta(seconds=seconds))
    drawer = chosen(batch)
    assert drawer.open is not None
    on_source = drawer.open.on_source
    assert (on_source.word, on_source.found is not None) == (word, bool(seconds and prepared))
    assert on_source.looked_at == (
        None if seconds is None else scene.now - timedelta(seconds=seconds)
    )
    assert [one.sql.partition(" ")[0] for one in drawer.statements] == (
        [] if word == "gone" else ["COMMIT", "ROLLBACK"]
    )
    assert re.search(sentence, plain(signed_in.get(f"/in-flight/{batch.pk}/drawer/")))


def test_a_drawer_of_another_source_than_the_filters_is_of_an_open_one(
    batch: Transaction, scene: Scene
) -> None:
    for query in (f"tx={batch.pk}", f"source=billing-eu&tx={batch.pk}"):
        page = page_of(query)
        assert page.chosen is not None, query
        assert page.chosen.open is not None, query
        assert page.chosen.open.transaction.pk == batch.pk
        assert not page.gone
    assert page_of("tx=1").gone


def test_the_drawer_says_what_it_blocks_and_holds(
    signed_in: Client, batch: Transaction, scene: Scene
) -> None:
    found = look(scene, "crm", prepared=[prepared_there(batch)])
    found.holders["waiting"] = {str(batch.xid): 2}
    found.holders["slots"] = {"replview": {
        "restart_lsn": "0/EC4FFFF0", "catalog_xmin": 90_215_700, "catalog_xmin_age": 84_300,
        "retained_wal_bytes": 4 << 30, "unconfirmed_wal_bytes": 0, "active": True,
        "xmin_age": None, "database": "crm"}}  # fmt: skip
    found.save()
    drawer = chosen(batch)
    assert (drawer.owner, drawer.database) == ("crm_batch", "crm")
    assert drawer.blocked == Blocked(
        vacuum="rows deleted in the last 84,267 transactions stay", sessions=2
    )
    assert drawer.limit_words == "no limit set"
    said = plain(signed_in.get(f"/in-flight/{batch.pk}/drawer/"))

    assert "Owner, database crm_batch, crm" in said
    assert "in crm: rows deleted in the last 84,267 transactions stay" in said
    assert "2 sessions" in said
    assert "4.1 GB of WAL, no limit set" in said
    assert "COMMIT PREPARED" in said
    assert "Connect to database crm first" in said
    assert "Needs crm_batch or a superuser." in said
    assert (
        "crm_batch_20261119_2 pins restart_lsn (4 GB of the 4 GB kept are since its first" in said
    )
    assert "412,880 changes so far not committed" in said


def test_one_that_streams_names_its_session_and_how_to_end_it(
    signed_in: Client, scene: Scene
) -> None:
    row = Transaction.objects.get(xid=479418)
    session = {"pid": 20714, "database": "shop", "role": "batch", "application_name": EVIL,
               "state": "active", "xact_started_at": (scene.now - timedelta(minutes=2)).isoformat(),
               "xid": 479418, "backend_xmin_age": 5}  # fmt: skip
    look(scene, "shop", running=[session])
    answer = signed_in.get(f"/in-flight/{row.pk}/drawer/")

    said = plain(answer)
    assert re.search(r"still running, \d s ago", said)
    assert "pid 20714, batch," in said
    copied = "WHERE pid = 20714 AND backend_xid = &#x27;479418&#x27;::xid;"
    assert copied in text_of(answer)
    assert "<img" not in text_of(answer)


def test_a_prepared_one_that_is_in_no_record_says_why(
    signed_in: Client, batch: Transaction, scene: Scene
) -> None:
    other = {"gid": "it's " + EVIL, "xid": 7, "prepared_at": scene.now.isoformat(),
             "owner": EVIL, "database": "another"}  # fmt: skip
    old = other | {"gid": "older", "database": "crm", "xid": 9,
                   "prepared_at": (scene.now - timedelta(days=3)).isoformat()}  # fmt: skip
    slots = {"replview": {"database": "crm"}, "warehouse_sync": {"database": "crm"}}
    look(scene, "crm", prepared=[old, prepared_there(batch), other],
         holders={"next_xid": 10, "slots": slots})  # fmt: skip
    rows = {row.holder.name: row for row in page_of().content.on_source}
    assert rows[other["gid"]].why == "in another database than the slot's"
    assert rows["older"].why.startswith("prepared before the slot followed it")
    own = rows["crm_batch_20261119_2"]
    assert (own.transaction, str(own.slot), own.why) == (batch.pk, "crm/replview", "")
    sentence = page_of().sentence
    assert (sentence.name, sentence.doing) == ("older", "prepared on crm for")
    assert sentence.since == scene.now - timedelta(days=3)

    answer = signed_in.get("/in-flight/")
    said, page = plain(answer), text_of(answer)
    apart = page.split('id="on-source-title"')[1]
    assert "in another database than the slot&#x27;s" in apart
    shown = apart.split(">crm_batch_20261119_2<")[1].split('id="ended-title"')[0]
    assert f'tx={batch.pk}">in the record of crm/replview</a>' in shown
    assert "older , prepared on crm for 3 d" in said
    assert "<img" not in page
    quoted = "COMMIT PREPARED &#x27;it&#x27;&#x27;s &lt;img"
    assert f'data-copy="{quoted}' in page


@pytest.mark.parametrize(
    ("gid", "quoted"),
    [("plain", "'plain'"), ("it's", "'it''s'"), (r"a\b'", r"E'a\\b'''"), ("", "''")],
)
def test_a_gid_is_quoted_for_any_server(gid: str, quoted: str) -> None:
    commit, _ = ends_of_prepared(gid, "changes")
    assert commit.sql == f"COMMIT PREPARED {quoted};"


def _ended(scene: Scene, state: str, **values) -> Transaction:
    known = {"stored_at": scene.now - timedelta(seconds=1), "xid": 470_000 + scene.made,
             "inserts": 7, "commit_lsn": LSN(0x4E91C000)}  # fmt: skip
    return scene.transaction("shop/replview", state, timedelta(minutes=4), **(known | values))


def test_the_stages_of_an_ended_one_come_from_its_transitions(
    signed_in: Client, scene: Scene
) -> None:
    at = scene.now - timedelta(minutes=4)
    row = _ended(scene, "committed", gid="both", streamed=True, commit_seq=900)
    steps = (("streaming", 0, None), ("prepared", 102, at), ("committed", 190, at))
    for state, seconds, source_time in steps:
        Transition.objects.create(
            transaction_id=row.pk, state=state, lsn=LSN(0x1000 + seconds),
            recorded_at=at + timedelta(seconds=seconds),
            source_time=source_time and source_time + timedelta(seconds=seconds),
        )  # fmt: skip
    [ended] = [one for one in page_of().content.ended if one.transaction.pk == row.pk]
    assert ended.lifecycle is not None
    assert ended.lifecycle.words == "1\xa0min\xa042\xa0s + 1\xa0min\xa028\xa0s"
    assert [(step.state, str(step.lsn)) for step in ended.lifecycle.steps] == [
        ("streaming", "0/1000"), ("prepared", "0/1066"), ("committed", "0/10BE"),
    ]  # fmt: skip
    assert ended.lifecycle.end == "committed"

    page = text_of(signed_in.get("/in-flight/"))
    shown = page.split(f'id="tx-{row.pk}"')[1].split("</tr>")[0]
    assert "1\xa0min\xa042\xa0s + 1\xa0min\xa028\xa0s" in shown
    assert 'class="lifecycle-streaming"' in shown
    assert 'class="lifecycle-prepared"' in shown
    assert 'href="#i-state-committed"' in shown
    assert "prepared " in shown
    assert "0/1066" in shown
    assert "0/10BE" in plain(signed_in.get(f"/in-flight/{row.pk}/drawer/"))
    for address in (f"/transactions/{row.pk}/", f"/transactions/{row.pk}/drawer/"):
        assert 'class="lifecycle-prepared"' in text_of(signed_in.get(address))


def test_stages_without_transitions_are_drawn_from_the_transaction(
    signed_in: Client, scene: Scene
) -> None:
    prepared = scene.now - timedelta(minutes=3)
    row = _ended(scene, "rolled back", gid="cancelled", prepared_at=prepared,
                 ended_at=prepared + timedelta(seconds=22))  # fmt: skip
    plain_one = _ended(scene, "committed", commit_seq=901)
    [ended] = page_of().content.ended
    assert ended.transaction.pk == row.pk
    assert ended.lifecycle is not None
    assert (ended.lifecycle.words, ended.lost) == ("prepared 22\xa0s", True)
    page = text_of(signed_in.get("/in-flight/"))
    shown = page.split(f'id="tx-{row.pk}"')[1].split("</tr>")[0]
    assert "<s>7</s>" in shown
    assert 'class="lifecycle"' not in text_of(signed_in.get(f"/transactions/{plain_one.pk}/"))


def test_changes_that_were_swept_away_are_said_to_be(signed_in: Client, scene: Scene) -> None:
    row = _ended(scene, "aborted", streamed=True, ended_at=scene.now)
    AbortedSubtransaction.objects.create(transaction_id=row.pk, subxid=row.xid, swept=True)
    assert not chosen(row).kept
    said = plain(signed_in.get(f"/in-flight/{row.pk}/drawer/"))

    assert "its changes were deleted" in said
    assert "rolled back" in said


def test_all_that_ended_are_listed_a_page_at_a_time(signed_in: Client, scene: Scene) -> None:
    for number in range(130):
        _ended(scene, "committed", gid=f"g{number:03}", commit_seq=1000 + number,
               stored_at=scene.now - timedelta(seconds=number // 3))  # fmt: skip
    assert page_of().content.more_ended
    assert "More </a>" in text_of(signed_in.get("/in-flight/"))
    address, seen = "/in-flight/ended/?source=shop", []
    while address:
        page = text_of(signed_in.get(address))
        seen += re.findall(r"gid or xid (g\d+): copy", page)
        found = re.search(r'href="(/in-flight/ended/\?[^"]*before=[^"]+)"', page)
        address = found[1].replace("&amp;", "&") if found else ""

    assert sorted(seen) == [f"g{number:03}" for number in range(130)]
    assert seen == sorted(seen, key=lambda name: (int(name[1:]) // 3, -int(name[1:])))


def test_the_parts_are_sent_only_while_something_is_new(signed_in: Client, scene: Scene) -> None:
    page = text_of(signed_in.get("/in-flight/"))
    revision = re.search(r'data-revision="([^"]+)"', page)[1]
    assert signed_in.get("/in-flight/now/", {"seen": revision}).status_code == 204

    Transaction.objects.filter(xid=479418).update(stored_at=scene.now, updates=186_500)
    answer = signed_in.get("/in-flight/now/", {"seen": revision, "tx": "1"})
    assert answer.status_code == 200
    regions = re.findall(r'data-region="(\w+)"', text_of(answer))
    assert regions == ["sentence", "numbers", "list", "side"]
    assert "186,500" in text_of(answer)
    assert "<html" not in text_of(answer)


def test_the_navigation_and_the_overview_lead_here(
    signed_in: Client, batch: Transaction, scene: Scene
) -> None:
    page = text_of(signed_in.get("/"))

    assert 'data-count="in-flight"><span>5<' in page
    assert 'data-count="live"><' in page
    assert f'href="/in-flight/?tx={batch.pk}"' in page


def test_values_of_a_source_are_escaped(signed_in: Client, scene: Scene) -> None:
    row = scene.transaction("shop/replview", "prepared", timedelta(hours=10), gid=EVIL, xid=5)
    look(scene, "shop", prepared=[prepared_there(row, owner=EVIL, database=EVIL)])

    for address in ("/in-flight/", f"/in-flight/?tx={row.pk}", f"/in-flight/?q={EVIL}"):
        assert "<img" not in text_of(signed_in.get(address))


def _waiting(scene: Scene, number: int) -> list[dict]:
    rows = [
        scene.transaction("shop/replview", "prepared", timedelta(minutes=9), xid=1000 + n,
                          gid=f"waits {n}", updates=3, first_lsn=LSN(0x100))
        for n in range(number)
    ]  # fmt: skip
    return [prepared_there(row) for row in rows]


def test_queries_do_not_grow_with_what_is_open(signed_in: Client, scene: Scene) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert signed_in.get("/in-flight/now/").status_code == 200
        return len(seen)

    found = look(scene, "shop")
    before = queries()
    found.prepared = _waiting(scene, 150)
    found.save()

    assert queries() <= before + 1  # asks which of those sampled are known
    assert before <= 16


def test_a_thousand_waiting_are_counted_and_fifty_drawn(signed_in: Client, scene: Scene) -> None:
    look(scene, "shop", prepared=_waiting(scene, 1000))
    SlotSample.objects.all().delete()
    page = page_of()
    assert page.sentence.title == "1,005 open: 2 streaming, 1,003 prepared."
    assert (page.content.numbers.prepared, page.content.more_prepared) == (1003, 953)
    assert page.filters.more_url == "/in-flight/?rows=150"
    began = time.perf_counter()
    answer = signed_in.get("/in-flight/")
    took = time.perf_counter() - began

    said = plain(answer)
    assert "1,003 waiting for COMMIT PREPARED" in said
    assert "953 younger not shown" in said
    assert text_of(answer).count('aria-label="gid waits') == 49
    assert took < 5  # the bar of 200 ms is the benchmark's
    assert "rows=150" in text_of(answer)


def test_sources_that_are_gone_leave_nothing(signed_in: Client, scene: Scene) -> None:
    look(scene, "shop")
    Source.objects.all().delete()

    assert not SourceLook.objects.exists()
    assert signed_in.get("/in-flight/").status_code == 200


def test_a_source_that_sends_transactions_only_when_they_are_committed_is_named(
    signed_in: Client, scene: Scene
) -> None:
    assert page_of().content.scope.sent_late == []
    assert "Before version 14" not in plain(signed_in.get("/in-flight/"))
    Source.objects.filter(name="crm").update(server_version=130023)

    assert page_of().content.scope.sent_late == ["crm"]
    said = plain(signed_in.get("/in-flight/"))
    assert (
        "Before version 14, PostgreSQL sends a transaction only when it commits: crm none is"
        in said
    )
