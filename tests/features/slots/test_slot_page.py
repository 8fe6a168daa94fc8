"""A slot's own page: sentence, facts, incarnations, and the log a page at a time."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape

from decoder.scalars import LSN
from replview.features.slots.retained import Retained
from replview.features.slots.slot_page import LOG_LINES, SlotPage, slot_page
from replview.features.slots.views import gone_page
from replview.health.fleet import read_fleet
from replview.store.models import Slot, SlotEvent, SlotIncarnation, Source
from replview.ui.slot_log import KINDS, detail_of, kind_of, query_of
from tests.support.page_elements import spaced
from tests.support.scene import Scene

BILLING = "/slots/billing-eu/replview_billing/"
SHOP = "/slots/shop/replview/"


def text_of(response) -> str:
    return response.content.decode()


def page_of(name: str, query: str = "") -> SlotPage:
    """Return the page of a slot of the scene."""
    view = read_fleet().find_slot(name)
    assert view is not None
    return slot_page(view, QueryDict(query))


def log_ids(page: str) -> list[int]:
    found = re.findall(r'<li class="log-line[^"]*"\s+id="event-(\d+)"', page)
    return [int(number) for number in found]


def test_the_sentence_is_the_slots_health(scene: Scene) -> None:
    sentence = page_of("billing-eu/replview_billing").sentence

    assert sentence.level == "now"
    assert sentence.title.startswith("replview_billing will be lost in about")
    assert sentence.next.startswith("let it be read")


def test_the_header_has_the_slot_as_its_scope(signed_in: Client, scene: Scene) -> None:
    page = text_of(signed_in.get(SHOP))

    assert 'aria-label="Scope: shop/replview"' in page
    assert "/shell/health/?slot=shop/replview" in page
    assert re.search(r'href="/slots/" aria-current="page"', page)


def test_retained_wal_stands_against_its_limit(scene: Scene) -> None:
    retained = page_of("billing-eu/replview_billing").retained

    assert retained.pace.startswith("growing ")
    assert "lost in about" in retained.left
    assert retained == Retained(
        number="32.2\xa0GB",
        lost="",
        pace=retained.pace,
        left=retained.left,
        limit="limit 64\xa0GB (max_slot_wal_keep_size)",
        half="half: alerts from here",
        end="64\xa0GB: wal_removed, the slot is lost",
        width=503,
        level="now",
    )


def test_the_page_is_rendered(signed_in: Client, scene: Scene) -> None:
    page = text_of(signed_in.get(BILLING))

    heading = re.search(r"<h1>(.*?)</h1>", page, re.DOTALL)
    assert heading is not None
    assert "replview_billing will be lost in about" in heading[1]
    assert "Next: let it be read" in heading[1]
    assert "<b>32.2\xa0GB</b>" in page
    assert "limit 64\xa0GB (max_slot_wal_keep_size)" in page
    assert 'viewBox="0 0 1000 12"' in page
    assert '<rect width="503" height="12"/>' in page


def test_what_an_older_server_does_not_tell_stands_beside_its_version(
    signed_in: Client, scene: Scene
) -> None:
    assert "does not report:" not in text_of(signed_in.get(SHOP))
    Source.objects.filter(name="shop").update(server_version=130023)

    page = spaced(text_of(signed_in.get(SHOP)))
    assert "PostgreSQL 13 does not report: open transactions, logical messages" in page
    assert "prepared transactions before COMMIT PREPARED (from 15 on)." in page


def test_without_a_limit_it_can_fill_the_disk(scene: Scene) -> None:
    retained = page_of("crm/replview").retained

    assert retained.limit.startswith("no limit: can fill the disk")
    assert (retained.half, retained.end, retained.width) == ("", "", None)


def test_unknown_is_said_as_unknown(signed_in: Client, scene: Scene) -> None:
    assert page_of("shop-replica/replview_ro").retained.number is None

    page = text_of(signed_in.get("/slots/shop-replica/replview_ro/"))
    assert re.search(r'<b class="unknown">unknown</b>\s*<span class="second">of WAL retained', page)
    assert '<dt>wal_status</dt> <dd> <span class="unknown">unknown</span>' in spaced(page)


def test_facts(signed_in: Client, scene: Scene) -> None:
    Slot.objects.filter(name="replview", source__name="shop").update(
        interface="sql", plugin="wal2json", lease_owner="receivers@worker-1", epoch=7
    )
    page = text_of(signed_in.get(SHOP))

    for expected in ("SQL functions", "wal2json", "receivers@worker-1", "512,904",
                     "proto_version 4", "streaming parallel", 'copy="2/4E91C3D8"'):  # fmt: skip
        assert expected in page


def test_incarnations_the_present_one_first(signed_in: Client, scene: Scene) -> None:
    slot = scene.slots["shop/replview"]
    slot.incarnation = SlotIncarnation.objects.create(
        slot=slot, number=2, system_identifier="7612", timeline=3, reason="re-pointed",
        started_lsn=LSN.parse("3/AA000028"), commit_seq=41,
    )  # fmt: skip
    slot.save()
    page = page_of("shop/replview")

    assert [(row.incarnation.number, row.present, row.reason) for row in page.incarnations] == [
        (2, True, "the source is another cluster"),
        (1, False, "created by replview"),
    ]
    assert page.present == slot.incarnation
    assert page.earlier == []

    rendered = text_of(signed_in.get(SHOP))
    second, first = rendered.split('id="incarnation-2"')[1].split('id="incarnation-1"')
    for expected in ("present", "the source is another cluster", "3/AA000028", "timeline 3"):
        assert expected in second
    assert "present" not in first.split("</tr>")[0]


def test_the_log_is_paged_by_its_lines(signed_in: Client, scene: Scene) -> None:
    slot = scene.slots["shop/replview"]
    SlotEvent.objects.filter(slot=slot).delete()
    # All at one moment: only the number tells them apart.
    made = [
        SlotEvent.objects.create(slot=slot, kind="connected", message=f"line {n}", at=scene.now)
        for n in range(2 * LOG_LINES + 7)
    ]
    expected = [line.pk for line in reversed(made)]

    log = page_of("shop/replview").log
    queries, seen = [log.older], [line.event.pk for line in log.lines]
    while queries[-1]:
        log = page_of("shop/replview", queries[-1]).log
        seen += [line.event.pk for line in log.lines]
        queries.append(log.older)
    assert seen == expected
    assert len(queries) == 3

    page = text_of(signed_in.get(SHOP))
    older = re.search(r'href="([^"]+)">\s*<svg[^>]*><use href="#i-down"/></svg>\s*Older', page)
    assert older is not None
    assert older[1] == f"{SHOP}?{queries[0]}#slot-log"
    page = text_of(signed_in.get(f"{SHOP}?{queries[-2]}"))
    assert log_ids(page) == expected[-7:]
    assert "Beginning of the log." in page


def test_every_line_has_an_address_that_shows_it(signed_in: Client, scene: Scene) -> None:
    gap = SlotEvent.objects.get(slot=scene.slots["shop/replview"], kind="gap")
    page = text_of(signed_in.get(SHOP))
    assert f'href="{SHOP}?from={gap.pk}#event-{gap.pk}"' in page

    page = text_of(signed_in.get(SHOP, {"from": gap.pk}))
    assert log_ids(page)[0] == gap.pk
    assert "Newest" in page


def test_a_line_that_is_not_there_is_no_page(signed_in: Client, scene: Scene) -> None:
    other = SlotEvent.objects.filter(slot=scene.slots["crm/replview"]).first()
    assert other is not None
    for text in (str(other.pk), "nonsense", "99999999999999999999"):
        assert signed_in.get(SHOP, {"from": text}).status_code == 404


def test_the_log_is_narrowed_by_kind(signed_in: Client, scene: Scene) -> None:
    log = page_of("shop/replview", "kind=gap&kind=schema").log
    assert [line.event.kind for line in log.lines] == ["schema", "gap"]
    assert log.kinds == ["gap", "schema"]
    assert log.here == "kind=gap&kind=schema"
    assert page_of("shop/replview", "kind=%00&kind=x").log.lines == []

    page = text_of(signed_in.get(f"{SHOP}?kind=gap&kind=schema"))
    assert "2 kinds" in spaced(page)
    assert f'hx-get="{SHOP}?kind=gap&amp;kind=schema"' in page
    page = text_of(signed_in.get(f"{SHOP}?kind=failover"))
    assert "No event of this kind" in page
    assert signed_in.get(f"{SHOP}?kind=%00&kind=x").status_code == 200


def test_an_empty_log_says_what_to_do(signed_in: Client, scene: Scene) -> None:
    SlotEvent.objects.all().delete()

    assert "No events yet." in text_of(signed_in.get(SHOP))


def test_every_kind_has_a_word_and_a_symbol(signed_in: Client, scene: Scene) -> None:
    kinds = [*KINDS, "never_heard_of", ""]
    for number, kind in enumerate(kinds):
        scene.event("shop/replview", kind, f"Happened {number}.", timedelta(0))
    page = text_of(signed_in.get(SHOP))

    lines = page.split('<li class="log-line')
    for number, kind in enumerate(kinds):
        (line,) = (text for text in lines if f"Happened {number}." in text)
        assert f'<span class="log-word">{escape(kind_of(kind).word)}</span>' in line, kind
        assert f'href="#i-{kind_of(kind).symbol}"' in line, kind
        assert f'id="i-{kind_of(kind).symbol}"' in page, kind


def test_details_are_told_in_words(signed_in: Client, scene: Scene) -> None:
    evil = "<script>alert(1)</script>"
    SlotEvent.objects.create(
        slot=scene.slots["shop/replview"], kind="created", message="Made.",
        detail={"statements": ["CREATE PUBLICATION x", evil], "two_phase": True, "empty": []},
    )  # fmt: skip
    assert dict(page_of("shop/replview").log.lines[0].detail) == {
        "statements": f"CREATE PUBLICATION x\n{evil}",
        "two phase": "yes",
    }

    page = text_of(signed_in.get(SHOP))
    assert "<dt>two phase</dt><dd>yes</dd>" in page
    assert "CREATE PUBLICATION x\n&lt;script&gt;" in page
    assert evil not in page


def test_details_of_any_form_are_survived() -> None:
    assert detail_of(None) == []
    assert detail_of({"a": {"b": [1]}, "n": 0}) == [("a", '{"b": [1]}'), ("n", "0")]
    assert query_of(["a b", "c&d"], 3) == "kind=a+b&kind=c%26d&from=3"


def test_the_polled_part_is_only_the_part(signed_in: Client, scene: Scene) -> None:
    part = text_of(signed_in.get(SHOP, headers={"HX-Request": "true"}))

    assert "<html" not in part
    assert 'id="slot-sentence" hx-swap-oob="innerHTML"' in part


def test_a_slot_that_is_not_there_says_what_to_do(signed_in: Client, scene: Scene) -> None:
    page = gone_page("shop", "gone")
    assert (page.source_name, page.slot_name) == ("shop", "gone")
    assert page.add_command == "replview slot add shop gone"

    response = signed_in.get("/slots/shop/gone/")
    assert response.status_code == 404
    assert 'data-copy="replview slot add shop gone"' in text_of(response)
    poll = signed_in.get("/slots/shop/gone/", headers={"HX-Request": "true"})
    assert poll["HX-Refresh"] == "true"


def test_no_command_is_made_of_an_address(signed_in: Client, scene: Scene) -> None:
    for source, slot in (("shop", "$(reboot)"), ("$(reboot)", "replview")):
        assert gone_page(source, slot).add_command == "replview slot add SOURCE SLOT"
        page = text_of(signed_in.get(f"/slots/{source}/{slot}/"))
        assert 'data-copy="replview slot add SOURCE SLOT"' in page


@pytest.mark.parametrize("page", ["/", "/sources/", "/slots/"])
def test_other_pages_lead_to_it(signed_in: Client, scene: Scene, page: str) -> None:
    assert f'href="{SHOP}"' in text_of(signed_in.get(page))


def test_queries_do_not_grow_with_the_log(signed_in: Client, scene: Scene) -> None:
    signed_in.get(SHOP)
    with CaptureQueriesContext(connection) as before:
        signed_in.get(SHOP)
    for number in range(200):
        scene.event("shop/replview", "connected", f"line {number}", timedelta(0))
    with CaptureQueriesContext(connection) as after:
        signed_in.get(SHOP)
    assert len(after) == len(before)
