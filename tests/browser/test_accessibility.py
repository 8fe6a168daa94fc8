"""Every page through axe: no serious or critical finding, light and dark, wide and narrow.

axe is brought in through the debugger, as Playwright evaluates: the pages' policy against foreign
scripts stays as it is.
"""

import datetime as dt
from collections.abc import Iterator

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.urls import reverse
from playwright.sync_api import Page, expect

from replview.access.rights import Role, set_role
from replview.store.models import (
    Alert,
    Baseline,
    Export,
    HistoryJob,
    Lake,
    LakeRelation,
    LakeRun,
    PublicationLook,
    Slot,
    SlotEvent,
)
from replview.text.addresses import (
    actor_url,
    find_url,
    in_flight_url,
    relation_url,
    row_url,
    slot_page_url,
    stream_url,
    transactions_url,
)
from tests.browser.axe import OPTIONS, findings
from tests.browser.conftest import Server
from tests.browser.health_story import OTHER, tell_health
from tests.support.feeder import Feeder, NewChange, NewTransaction, single

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
#: The rules whose results can differ between themes and widths; the first look checks all others.
OF_LOOKS = {
    **OPTIONS,
    "runOnly": {
        "type": "rule",
        "values": ["color-contrast", "link-in-text-block", "meta-viewport",
                   "scrollable-region-focusable", "aria-hidden-focus", "empty-heading"],
    },
}  # fmt: skip
LONG = "A note that goes on. " * 40


@pytest.fixture(autouse=True)
def no_session_left(page: Page) -> Iterator[None]:
    """Close the store connection that the test opened while Playwright's event loop runs."""
    yield
    connection.close()


@pytest.fixture
def addresses(page: Page, feeder: Feeder) -> dict[str, str]:
    """Every page by name, over a record with something of everything in it."""
    slot = Slot.objects.select_related("source").get(pk=feeder.slot_id)
    set_role(get_user_model().objects.get(username="watcher"), Role.ADMIN)
    committed = fill(feeder, slot)
    alert = tell_health(slot)
    export, job = taken_out(slot)
    relation_id = feeder.relations["orders"][0]
    return {
        "overview": reverse("overview"),
        "live": stream_url(slot),
        "live, a drawer open": f"{stream_url(slot)}&tx={committed}",
        "in flight": in_flight_url(slot),
        "ended": reverse("in-flight-ended"),
        "transactions": transactions_url(slot),
        "transactions, filtered": transactions_url(slot, tables="public.orders", actor="alice"),
        "transactions, none found": transactions_url(slot, actor="nobody"),
        "transaction": reverse("transaction", args=[committed]),
        "row history": row_url(slot, "public", "orders", {"id": "42"}),
        "row history, asking for a row": f"{reverse('row-history')}?slot={slot}",
        "relations": f"{reverse('relations')}?slot={slot}",
        "relation": relation_url(relation_id),
        "actors": f"{reverse('actors')}?slot={slot}",
        "actor": actor_url(slot, "alice"),
        "actor, unknown": actor_url(slot, ""),
        "find": find_url(slot),
        "find, found": find_url(slot, table="public.orders", where="status = paid"),
        "exports": f"{reverse('exports')}?slot={slot}",
        "export": reverse("export", args=[export.pk]),
        "exports, all": reverse("exports-all"),
        "history jobs": reverse("history-jobs"),
        "history job": reverse("history-job", args=[job.pk]),
        "history jobs, all": reverse("history-jobs-all"),
        "lakes": reverse("lakes"),
        "lake, new": reverse("lake-new"),
        "lake": reverse("lake", args=[kept_lake(slot).pk]),
        "slots": reverse("slots"),
        "slot": slot_page_url(slot),
        "slot, only watched": reverse("slot", args=[slot.source.name, OTHER]),
        "lag": f"{reverse('lag')}?slot={slot}&slot={slot.source.name}/{OTHER}",
        "lag, as a table": f"{reverse('lag')}?slot={slot}&table=1",
        "alerts": reverse("alerts"),
        "alert": reverse("alert", args=[alert.pk]),
        "alert, over": reverse("alert", args=[Alert.objects.get(state="cleared").pk]),
        "rules": reverse("alert-rules"),
        "rule": reverse("alert-rule", args=[alert.rule_id]),
        "rule, new": f"{reverse('alert-rule-new')}?kind=lag",
        "webhooks": reverse("webhooks"),
        "store": reverse("store"),
        "trouble": reverse("trouble"),
        "baselines": reverse("baselines", args=[slot.source.name, slot.name]),
        "sources": reverse("sources"),
        "masks": reverse("masks"),
        "access record": reverse("access-record"),
        "erase": reverse("erase"),
        "accounts": reverse("accounts"),
        "source": reverse("source", args=[slot.source.name]),
        "slot, to be dropped": reverse("slot-drop", args=[slot.source.name, slot.name]),
    }


def kept_lake(slot: Slot) -> Lake:
    """A lake with a table that was read, over a gap, and one whose last run failed."""
    lake = Lake.objects.create(
        name="shop", slot=slot, slot_name=str(slot), format="delta", root="/srv/lake"
    )
    size = {"rows": 1204, "files": 3, "bytes": 90_000}
    LakeRelation.objects.create(
        lake=lake, name="public.orders", reached={"1": 1}, gaps=[[1, 1, 1]],
        sizes={"changes": size, "current": size}, reported_at=dt.datetime.now(dt.UTC),
    )  # fmt: skip
    LakeRelation.objects.create(
        lake=lake, name="public.stock", problem_cause="the disk is full", problem_remedy="make room"
    )
    LakeRun.objects.create(
        lake=lake, action="run", requested_how="page", requested_by="alice", state="failed",
        problem_cause="the disk is full", problem_remedy="make room", reading="public.stock",
    )  # fmt: skip
    return lake


def fill(feeder: Feeder, slot: Slot) -> int:
    """A row's history, somebody who did it, messages, what is prepared; one transaction of it."""
    order = {"id": "42", "customer_id": "7", "status": "new", "total": "128.40", "paid_at": None,
             "note": LONG, "channel": "web", "created_at": "2026-11-20 07:57:11+00"}  # fmt: skip
    paid = {**order, "status": "paid", "note": f"{LONG} Paid."}
    alice = {"actor": "alice", "grade": "claimed", "context": {"request_id": "8b1f"}}
    message = NewChange(None, "M", {"prefix": "replview", "content": '{"actor": "alice"}',
                                    "transactional": True})  # fmt: skip
    stock = {"sku": "B-1", "warehouse": "N", "reserved": "1", "on_hand": "9"}
    made = feeder.commit(
        NewTransaction([NewChange("orders", "I", order)], **alice),
        NewTransaction(
            [message, NewChange("orders", "U", paid),
             NewChange("stock", "U", {**stock, "reserved": "2"}, stock, "O"),
             NewChange("order_items", "I", {"order_id": "42", "position": "1", "sku": "B-1"})],
            **alice,
        ),
        NewTransaction([NewChange("price_list", "I", {"sku": "B-1", "price": "9.00"})],
                       actor="etl", grade="stamped", origin="replica_eu"),
        *(single(number) for number in range(60)),
        NewTransaction([NewChange("orders", "D", None, {"id": "42"}, "K")], gid="order-42"),
    )  # fmt: skip
    feeder.open(NewTransaction([NewChange("payments", "I", {"id": "5"})], state="prepared",
                               gid="waiting-1"))  # fmt: skip
    feeder.open(NewTransaction([NewChange("payments", "I", {"id": "6"})], state="streaming",
                               streamed=True))  # fmt: skip
    _evidence(slot)
    return made[1]


def taken_out(slot: Slot) -> tuple[Export, HistoryJob]:
    """An export that runs, one that failed, and a history job with its rows."""
    words = {"slot_name": str(slot), "slice": {}, "target": "/tmp/of-alice",
             "requested_by": "alice", "requested_how": "page"}  # fmt: skip
    Export.objects.create(slot=slot, state="failed", problem_cause="no space", **words)
    now = dt.datetime.now(dt.UTC)
    export = Export.objects.create(
        slot=slot, state="running", rows=400, total_rows=1200, started_at=now, heartbeat_at=now,
        **words,
    )  # fmt: skip
    result = {"columns": ["id", "status", "_actor"], "rows": [["42", "paid", None]] * 3,
              "more": True, "complete": False, "reasons": ["no baseline is exported of it"],
              "details": {"table": "public.orders", "begins": {"lsn": "0/1000"}}}  # fmt: skip
    HistoryJob.objects.create(
        job="churn", root="/tmp/of-alice", requested_by="bob", state="failed",
        problem_cause="Spark is not installed here",
    )  # fmt: skip
    job = HistoryJob.objects.create(
        job="as-of", root="/tmp/of-alice", words={"table": "public.orders", "lsn": "2/4E910000"},
        requested_by="alice", state="done", started_at=now, finished_at=now, result=result,
        output="/tmp/of-alice/history-jobs/2-as-of-1",
    )  # fmt: skip
    return export, job


def _evidence(slot: Slot) -> None:
    """A publication, a baseline, a gap, a changed schema."""
    now = dt.datetime.now(dt.UTC)
    table = {"schema": "public", "table": "orders", "oid": 16384, "columns": None,
             "unpublished_columns": [], "row_filter": None, "operations": "IUDT",
             "replica_identity": "DEFAULT", "primary_key": ["id"], "root": None}  # fmt: skip
    publication = {"name": "shop", "insert": True, "update": True, "delete": True,
                   "truncate": True, "via_root": False, "all_tables": False}  # fmt: skip
    PublicationLook.objects.create(
        slot=slot, first_seen_at=now, last_seen_at=now, digest="1",
        facts={"publications": [publication], "tables": [table],
               "unpublished": ["public.audit_log"]},
    )  # fmt: skip
    for state, rows in (("done", 1200), ("reading", 400), ("failed", 0)):
        Baseline.objects.create(
            slot=slot, incarnation=slot.incarnation, schema="public", table="orders", state=state,
            rows=rows, estimated_rows=1200, started_at=now, heartbeat_at=now, lsn="2/4E910000",
            finished_at=now if state != "reading" else None,
            problem_cause="The table was dropped." if state == "failed" else "",
        )  # fmt: skip
    for kind in ("gap", "schema", "connected"):
        SlotEvent.objects.create(slot=slot, incarnation=slot.incarnation, kind=kind, message=kind)


# Each scheme and each size once: the other two pairs are made of the same rules.
@pytest.mark.parametrize(
    ("scheme", "size"),
    [
        pytest.param("light", WIDE, id="light-wide"),
        pytest.param("dark", NARROW, id="dark-narrow", marks=pytest.mark.long),
    ],
)
def test_no_page_has_a_serious_finding(
    page: Page, server: Server, addresses: dict[str, str], scheme: str, size: dict[str, int]
) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size(size)
    found: dict[str, list[str]] = {}
    for name, address in addresses.items():
        answer = page.goto(f"{server.url}{address}")
        if answer is None or answer.status != 200:
            found[name] = [f"{address} answered {answer and answer.status}"]
            continue
        expect(page.locator("h1").first).to_be_attached()
        if "drawer" in name:
            expect(page.locator(".drawer .change").first).to_be_visible()
        if name in ("slot", "slot, only watched"):
            page.locator("#lag").scroll_into_view_if_needed()
        if "lag" in name or name in ("slot", "slot, only watched"):
            expect(page.locator("#lag-charts")).not_to_have_attribute("aria-busy", "true")
        if problems := findings(page, OPTIONS if size == WIDE else OF_LOOKS):
            found[name] = problems

    assert not found, "\n".join(f"{name}: {problem}" for name in found for problem in found[name])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_login_has_none(page: Page, server: Server, scheme: str) -> None:
    page.context.clear_cookies()
    page.emulate_media(color_scheme=scheme)
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        page.goto(f"{server.url}/login/")
        expect(page.locator("input[name=password]")).to_be_visible()
        assert findings(page) == []
        page.fill("input[name=username]", "watcher")
        page.fill("input[name=password]", "wrong")
        page.keyboard.press("Enter")
        expect(page.locator("[role=alert], .errorlist, .error").first).to_be_visible()
        assert findings(page) == []


@pytest.mark.usefixtures("on_live_page")
def test_a_finding_is_told(page: Page) -> None:
    page.evaluate("document.querySelector('main').append(document.createElement('input'))")

    assert any("label" in problem for problem in findings(page))
