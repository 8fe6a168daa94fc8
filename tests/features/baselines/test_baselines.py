"""The page of a slot's baselines, and the lines that tell what a record covers."""

import datetime as dt
import re

import pytest
from django.http import QueryDict
from django.template import Context, Template
from django.test import Client
from django.utils import timezone

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.features.baselines.page import BaselinesPage, build_form, build_page
from replview.features.baselines.text import RATES, BaselineTableChoice
from replview.jobs import baselines
from replview.store.looks import store_publication_look
from replview.store.models import Baseline, Slot, SlotEvent, Transaction
from replview.store.read.coverage import Coverage, coverage_of
from replview.store.retention.tidy import make_partitions
from replview.ui.sentence import Sentence
from replview.ui.templatetags.evidence import coverage_words
from tests.support.history_rows import History, insert
from tests.support.page_elements import spaced
from tests.support.people import make_user

PAGE = "/slots/shop/replview/baselines/"
EVIL = "<img src=x onerror=alert(1)>"


def text_of(response) -> str:
    return response.content.decode()


def entry(table: str, **more) -> dict:
    return {
        "schema": "public", "table": table, "oid": 1, "columns": None, "unpublished_columns": [],
        "row_filter": None, "operations": "IUDT", "replica_identity": "DEFAULT",
        "primary_key": ["id"], "root": None, **more,
    }  # fmt: skip


@pytest.fixture
def slot(db) -> Slot:
    """A slot that publishes two tables."""
    made = History().slot
    tables = [entry("orders"), entry(EVIL, primary_key=[], row_filter="(id > 7)")]
    facts = {"publications": [], "tables": tables, "unpublished": []}
    store_publication_look(made, facts, timezone.now())
    return made


def baseline(slot: Slot, **columns) -> Baseline:
    return Baseline.objects.create(
        slot=slot, incarnation=slot.incarnation, **{"schema": "public", "table": "orders"} | columns
    )


def hidden(slot: Slot, **columns) -> int:
    """The transaction of a baseline."""
    columns = {"state": "copying", **columns}
    return Transaction.objects.create(id=99, incarnation=slot.incarnation, **columns).pk


def page_of(slot: Slot, query: str = "") -> BaselinesPage:
    slot.refresh_from_db()
    return build_page(slot, build_form(slot, QueryDict(query)))


def test_the_page_renders(signed_in: Client, slot: Slot) -> None:
    empty = text_of(signed_in.get(PAGE))
    assert "replview baseline shop/replview SCHEMA.TABLE" in empty
    now = timezone.now()
    baseline(slot, state="reading", rows=41_000, estimated_rows=200_000, started_at=now,
             lsn=LSN(0x1B2C3D8))  # fmt: skip
    taken = hidden(slot, received_at=now - dt.timedelta(seconds=2), state="snapshot")
    baseline(slot, state="done", rows=1234, finished_at=now, lsn=LSN(4711),
             transaction_id=taken)  # fmt: skip
    baseline(slot, table="uncounted", state="reading", rows=41, lsn=LSN(1))
    baseline(slot, state="failed", table=EVIL, problem_cause=EVIL, problem_remedy=f"GRANT {EVIL}")
    page = spaced(text_of(signed_in.get(PAGE)))

    assert "<b>Reading public.uncounted.</b> 41 of an unknown number rows so far" in page
    bars = page.split('id="baselines"')[1].split("</table>")[0]
    assert re.findall(r'<rect width="(\d+)"', bars) == ["205"]
    assert "0/1B2C3D8" in page
    assert f'href="/transactions/{taken}/"' in page
    assert "GRANT" in page
    assert 'name="table" value="public.orders"' in page
    assert "has one" in page
    assert "no key" in page
    assert "row filter" in page
    assert page.index("Cost on shop") < page.index(">Take a baseline</button>")
    assert EVIL not in page
    part = text_of(signed_in.get(PAGE, headers={"HX-Request": "true"}))
    assert "hx-swap-oob" in part
    assert "0/1B2C3D8" in part
    assert "<html" not in part


def test_an_empty_page_says_why_and_what_to_do(slot: Slot) -> None:
    page = page_of(slot)

    assert page.rows == []
    assert page.sentence == Sentence(
        level="idle",
        title="No table of this slot has a baseline.",
        cause="Without one, the values of a row before its first recorded change are unknown.",
        next="choose tables.",
    )
    assert page.form.choices == [
        BaselineTableChoice(
            name="public.orders",
            chosen=False,
            done=False,
            root=None,
            row_filter=None,
            keyless=False,
        ),
        BaselineTableChoice(
            name=f"public.{EVIL}",
            chosen=False,
            done=False,
            root=None,
            row_filter="(id > 7)",
            keyless=True,
        ),
    ]


def test_no_baseline_is_taken_or_ended_of_a_table_without_a_right(slot: Slot) -> None:
    waiting = baseline(slot, state="requested", table="people")
    client = Client()
    user = make_user("olga", "operator", sources=[slot.source], tables=["public.customers"])
    client.force_login(user)
    for asked in (
        {"action": "request", "table": "public.orders", "rate": str(RATES[1])},
        {"action": "cancel", "baseline": str(waiting.pk)},
    ):
        answer = client.post(PAGE, asked)
        assert answer.status_code == 422
        assert "You have no right on public." in text_of(answer)
    assert list(Baseline.objects.values_list("table", "state")) == [("people", "requested")]


def test_a_table_is_chosen_by_the_address(signed_in: Client, slot: Slot) -> None:
    page = text_of(signed_in.get(f"{PAGE}?table=public.orders"))

    assert 'value="public.orders" checked' in page
    assert [table.chosen for table in page_of(slot, "table=public.orders").form.choices] == [
        True, False,
    ]  # fmt: skip


def test_asking_leads_back_to_the_list(signed_in: Client, slot: Slot) -> None:
    sent = {"action": "request", "table": ["public.orders", "no.such"], "rate": "1000"}
    response = signed_in.post(PAGE, sent)

    assert (response.status_code, response["Location"]) == (302, PAGE)
    asked = Baseline.objects.get()
    assert (asked.schema, asked.table, asked.rows_per_second) == ("public", "orders", 1000)
    assert asked.requested_by == "alice"
    assert page_of(slot).sentence.title == "1 table waits to be read."
    assert "at most 1,000" in text_of(signed_in.get(PAGE))


def test_asking_twice_asks_once(signed_in: Client, slot: Slot) -> None:
    for rate in ("1000", "0"):
        signed_in.post(PAGE, {"action": "request", "table": "public.orders", "rate": rate})

    assert Baseline.objects.get().rows_per_second is None


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"rate": "1000"}, "Choose at least one table"),
        ({"table": "public.orders", "rate": "7"}, "Choose one of the rates"),
        ({"table": "public.orders"}, "Choose one of the rates"),
    ],
)
def test_what_was_not_chosen_is_said(signed_in: Client, slot: Slot, sent, said: str) -> None:
    response = signed_in.post(PAGE, {"action": "request", **sent})

    assert response.status_code == 422
    assert said in text_of(response)
    assert not Baseline.objects.exists()


def test_how_far_it_is(slot: Slot) -> None:
    begun = timezone.now() - dt.timedelta(seconds=10)
    copying = hidden(slot, received_at=begun)
    baseline(slot, state="reading", rows=41_000, estimated_rows=200_000, started_at=begun,
             lsn=LSN(0x1B2C3D8), transaction_id=copying)  # fmt: skip
    page = page_of(slot)

    assert page.sentence.title == "Reading public.orders."
    [row] = page.rows
    assert (row.rows, row.width) == ("41,000 of about 200,000", 205)
    assert str(row.rate).endswith(" rows/s")


def test_what_it_waits_for_is_said(slot: Slot) -> None:
    baseline(slot, state="reading", started_at=timezone.now())

    assert page_of(slot).sentence == Sentence(
        level="unknown",
        title="Starting to read public.orders.",
        cause="Its snapshot waits for the transactions that are open.",
    )


def test_an_unknown_number_is_called_so(slot: Slot) -> None:
    baseline(slot, state="reading", rows=41, started_at=timezone.now(), lsn=LSN(1))
    [row] = page_of(slot).rows

    assert (row.rows, row.width) == ("41 of an unknown number", None)


def test_done_leads_to_its_rows(slot: Slot) -> None:
    now = timezone.now()
    taken = hidden(slot, received_at=now - dt.timedelta(seconds=2), state="snapshot")
    baseline(slot, state="done", rows=1234, started_at=now - dt.timedelta(seconds=9),
             finished_at=now, lsn=LSN(4711), transaction_id=taken)  # fmt: skip
    page = page_of(slot)

    assert page.sentence.title == "1 table has a baseline."
    assert [(row.rate, row.baseline.transaction_id) for row in page.rows] == [("617 rows/s", taken)]
    assert [table.done for table in page.form.choices] == [True, False]


def test_a_failed_one_says_why_and_can_be_tried_again(signed_in: Client, slot: Slot) -> None:
    failed = baseline(slot, state="failed", problem_code="may_not_read",
                      problem_cause="role x may not read it",
                      problem_remedy='GRANT SELECT ON "public"."orders" TO "x"')  # fmt: skip
    page = page_of(slot)
    assert page.sentence.cause == "Role x may not read it."
    [row] = page.rows
    assert (row.level, row.again) == ("look", True)
    assert row.baseline.problem_remedy.startswith("GRANT")

    signed_in.post(PAGE, {"action": "retry", "baseline": str(failed.pk)})
    failed.refresh_from_db()
    assert (failed.state, failed.problem_cause) == ("requested", "")


def test_it_is_cancelled_and_only_of_this_slot(signed_in: Client, slot: Slot) -> None:
    mine = baseline(slot)
    theirs = baseline(History("other").slot)
    for row in (mine, theirs):
        signed_in.post(PAGE, {"action": "cancel", "baseline": str(row.pk)})

    assert Baseline.objects.get(pk=mine.pk).state == "cancelled"
    assert Baseline.objects.get(pk=theirs.pk).state == "requested"


@pytest.mark.parametrize("number", ["", "x", "9" * 30, "-1", "²"])
def test_no_number_breaks_it(signed_in: Client, slot: Slot, number: str) -> None:
    assert signed_in.post(PAGE, {"action": "cancel", "baseline": number}).status_code == 302


def test_a_slot_of_another_plugin_is_refused(signed_in: Client, slot: Slot) -> None:
    Slot.objects.update(plugin="wal2json")

    assert page_of(slot).refusal.startswith("The output plugin of the slot is wal2json")
    assert "The output plugin of the slot is wal2json" in text_of(signed_in.get(PAGE))
    sent = {"action": "request", "table": "public.orders", "rate": "0"}
    assert signed_in.post(PAGE, sent).status_code == 422


def test_nobody_has_looked(signed_in: Client, db) -> None:
    History()

    assert "they are not read yet" in text_of(signed_in.get(PAGE))
    assert signed_in.get("/slots/shop/nobody/baselines/").status_code == 404


def test_it_takes_few_reads(signed_in: Client, slot: Slot, django_assert_max_num_queries) -> None:
    for number in range(30):
        baseline(slot, table=f"t{number}")
    with django_assert_max_num_queries(12):
        signed_in.get(PAGE)


def covered(slot: Slot) -> Coverage:
    return coverage_of(reading_session(), slot, table=("public", "orders"))


def lines(coverage: Coverage) -> str:
    """Return the lines under an answer."""
    template = Template('{% include "ui/evidence/_coverage.html" %}')
    return spaced(template.render(Context({"coverage": coverage})))


def test_coverage_tells_since_when_and_what_is_missing(db) -> None:
    make_partitions()
    history = History()
    history.commit(insert(1), commit_time=timezone.now())
    incarnation = history.new_incarnation()
    SlotEvent.objects.create(slot=history.slot, incarnation=incarnation, kind="gap", message=EVIL)
    facts = {"tables": [entry("orders", operations="IU", row_filter=f"({EVIL})",
                              unpublished_columns=["card"])]}  # fmt: skip
    store_publication_look(history.slot, facts, timezone.now())
    coverage = covered(history.slot)

    words = coverage_words(coverage)
    assert coverage.recorded_since is not None
    assert (words.gap_words, [gap.why for gap in words.gaps]) == ("One gap", [EVIL])
    assert words.missing == [
        "Not published: deletes, truncates of public.orders.",
        f"Only rows of public.orders that match ({EVIL}) are published.",
        "Columns not published: card.",
    ]
    text = lines(coverage)
    assert "Recorded since" in text
    assert "One gap:" in text
    assert all(sentence in text for sentence in (words.missing[0], words.missing[2]))
    assert EVIL not in text
    assert "No baseline of public.orders" in text
    assert f"{PAGE}?table=public.orders" in text
    baseline(history.slot, state="done", rows=5, lsn=LSN(4711), finished_at=timezone.now())
    assert "Baseline of public.orders: 5 rows" in lines(covered(history.slot))


def test_coverage_of_what_is_unknown_says_so(db) -> None:
    history = History()
    words = coverage_words(covered(history.slot))
    assert words.gap_words == "No gap"
    assert words.quiet == ["What is published of public.orders is unknown: not read yet."]
    store_publication_look(history.slot, {"tables": []}, timezone.now())
    assert coverage_words(covered(history.slot)).missing == ["public.orders is not published."]


def test_a_lost_claim_goes_back_and_is_claimed_again(db, slot: Slot) -> None:
    asked = baselines.request(slot, "public", "orders", by="alice")
    first = baselines.claim()
    assert first.pk == asked.pk
    assert baselines.claim() is None
    Baseline.objects.update(heartbeat_at=timezone.now() - dt.timedelta(minutes=5))
    baselines.rows.give_back_lost()
    second = baselines.claim()

    assert second.started_at > first.started_at
    assert not baselines.rows.fail(first, "too late", "")
    assert baselines.rows.fail(second, "in time", "")


def test_tables_of_one_source_are_read_one_at_a_time(db, slot: Slot) -> None:
    other = History("other").slot
    baselines.request(slot, "public", "orders", by="alice")
    baselines.request(other, "public", "orders", by="alice")
    assert baselines.claim() is not None
    assert baselines.claim() is None


def test_a_slot_without_an_incarnation_waits(db, slot: Slot) -> None:
    Slot.objects.update(incarnation=None)
    baselines.request(slot, "public", "orders", by="alice")
    assert baselines.claim() is None
