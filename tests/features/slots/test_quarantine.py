"""A quarantined change is shown, and a named account decides about it once."""

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from decoder.scalars import LSN
from replview.features.slots.quarantine_text import Quarantined, hex_dump, quarantined
from replview.features.slots.quarantine_views import read_raw
from replview.features.slots.slot_page import SlotPage, slot_page
from replview.health.fleet import read_fleet
from replview.store.models import Quarantine, Slot
from replview.store.quarantine import decide, open_quarantine, raw_length, raw_part
from tests.support.page_elements import spaced
from tests.support.people import make_user
from tests.support.scene import Scene

SHOP = "/slots/shop/replview/"
CAUSE = "the value of column note does not fit into the store"


def text_of(response) -> str:
    return response.content.decode()


def page_of(user: str = "alice") -> SlotPage:
    """Return the page of shop/replview as ``user`` sees it."""
    view = read_fleet().find_slot("shop/replview")
    assert view is not None
    return slot_page(view, QueryDict(), quarantined(view.slot, user))


def stopped_by() -> Quarantined:
    """Return what stops shop/replview."""
    stops = page_of().quarantined
    assert stops is not None
    return stops


def make(scene: Scene, **values) -> Quarantine:
    """The slot shop/replview, stopped by an insert of transaction 481902."""
    slot = scene.slots["shop/replview"]
    Slot.objects.filter(pk=slot.pk).update(
        state="failed", problem_code="quarantined", problem_cause=CAUSE, problem_remedy="Mend it"
    )
    known = {
        "xid": 481902, "lsn": LSN.parse("2/4E91A5B0"), "final_lsn": LSN.parse("2/4E91A6F0"),
        "relation": "public.orders", "tag": "I", "raw": b"I\x00<b>raw</b>\xff", "raw_bytes": 13,
        "cause": CAUSE, "remedy": "Run: ALTER TABLE orders DROP COLUMN note",
    }  # fmt: skip
    return Quarantine.objects.create(slot=slot, incarnation=slot.incarnation, **(known | values))


@pytest.fixture
def stopped(scene: Scene) -> Quarantine:
    """Undecided."""
    return make(scene)


def address(row: Quarantine, end: str = "") -> str:
    return f"{SHOP}quarantine/{row.pk}/{end}"


def test_it_says_what_stopped_the_slot(stopped: Quarantine) -> None:
    page = page_of()

    assert page.sentence.title == "replview is stopped by a change that could not be stored."
    assert page.sentence.next == "fix the cause and try again, or skip the transaction."
    assert page.live_url == ""
    stops = stopped_by()
    assert (stops.row.pk, stops.tag, stops.word) == (stopped.pk, "insert (I)", "481902")
    assert stops.undecided


def test_what_stopped_the_slot_is_rendered(signed_in: Client, stopped: Quarantine) -> None:
    page = text_of(signed_in.get(SHOP))

    assert "replview is stopped by a change that could not be stored." in page
    assert "The value of column note does not fit into the store." in page
    for expected in ('data-copy="2/4E91A5B0"', 'data-copy="2/4E91A6F0"', 'data-copy="481902"',
                     "public.orders", "insert (I), 13\xa0B",
                     'data-copy="ALTER TABLE orders DROP COLUMN note;"',
                     "All changes of transaction 481902 (number unknown"):  # fmt: skip
        assert expected in page
    assert "raw&lt;" not in page, "the message is shown on demand alone"


@pytest.mark.parametrize("page", ["/", "/slots/", "/sources/", "/shell/health/?slot=shop/replview"])
def test_other_pages_say_so_too(signed_in: Client, stopped: Quarantine, page: str) -> None:
    assert "stopped by a change that could not be stored" in text_of(signed_in.get(page))


def test_skipping_says_its_consequences(scene: Scene) -> None:
    make(scene)
    consequence = stopped_by().consequence
    assert consequence.startswith("All changes of transaction 481902 (number unknown")
    assert consequence.endswith("the gap is recorded under your name (alice).")

    scene.transaction("shop/replview", "streaming", timedelta(0), xid=481902, inserts=12)
    assert stopped_by().consequence.startswith("12 changes received so far of transaction 481902")


def test_skipping_needs_the_xid_typed(signed_in: Client, stopped: Quarantine) -> None:
    for typed in ("", "481903", "481902 or so"):
        response = signed_in.post(address(stopped), {"decision": "skip", "xid": typed})
        assert response.status_code == 422
        assert "Not skipped: type 481902 to confirm." in text_of(response)
    stopped.refresh_from_db()
    assert stopped.decision == ""

    response = signed_in.post(address(stopped), {"decision": "skip", "xid": " 481902 "})
    assert response["Location"] == f"{SHOP}#quarantine"
    stopped.refresh_from_db()
    assert (stopped.decision, stopped.decided_by, stopped.settled_at) == ("skip", "alice", None)
    assert stopped.decided_at is not None
    page = page_of()
    decided = "alice decided to skip transaction 481902. The receiver does so within seconds."
    assert page.sentence.cause == decided
    rendered = text_of(signed_in.get(SHOP))
    assert "<b>skip transaction 481902</b>" in spaced(rendered)
    assert 'name="decision"' not in rendered


def test_who_sees_one_table_skips_no_transaction(stopped: Quarantine) -> None:
    source = stopped.slot.source
    client = Client()
    client.force_login(make_user("olga", "operator", sources=[source], tables=["public.orders"]))
    refused = client.post(address(stopped), {"decision": "skip", "xid": "481902"})
    assert refused.status_code == 403
    page = client.get(f"/slots/{stopped.slot}/").text
    assert "an admin may skip it" in page
    assert 'value="skip"' not in page
    stopped.refresh_from_db()
    assert stopped.decision == ""
    client.post(address(stopped), {"decision": "retry"})
    stopped.refresh_from_db()
    assert stopped.decision == "retry"


def test_trying_again(signed_in: Client, stopped: Quarantine) -> None:
    signed_in.post(address(stopped), {"decision": "retry"})

    stopped.refresh_from_db()
    assert (stopped.decision, stopped.decided_by) == ("retry", "alice")


def test_only_the_first_decision_counts(signed_in: Client, stopped: Quarantine) -> None:
    assert decide(stopped.pk, "retry", "bob")
    assert not decide(stopped.pk, "skip", "carol")
    signed_in.post(address(stopped), {"decision": "skip", "xid": "481902"})

    stopped.refresh_from_db()
    assert (stopped.decision, stopped.decided_by) == ("retry", "bob")


def test_what_is_settled_takes_no_decision(stopped: Quarantine) -> None:
    Quarantine.objects.update(settled_at=timezone.now())

    assert not decide(stopped.pk, "retry", "bob")
    assert open_quarantine(stopped.slot) is None


def test_no_other_decision_is_taken(signed_in: Client, stopped: Quarantine) -> None:
    assert signed_in.post(address(stopped), {"decision": "drop"}).status_code == 422
    assert signed_in.get(address(stopped)).status_code == 405
    with pytest.raises(ValueError, match="no such decision"):
        decide(stopped.pk, "", "bob")


def test_deciding_needs_a_token_and_a_login(db, stopped: Quarantine) -> None:
    careful = Client(enforce_csrf_checks=True)
    assert careful.post(address(stopped), {"decision": "retry"}).status_code in (302, 403)
    careful.force_login(make_user("mallory"))
    assert careful.post(address(stopped), {"decision": "retry"}).status_code == 403
    stopped.refresh_from_db()
    assert stopped.decision == ""


def test_a_message_of_no_transaction_cannot_be_skipped(signed_in: Client, scene: Scene) -> None:
    row = make(scene, xid=None, tag="R")
    assert (stopped_by().word, stopped_by().consequence) == ("", "")
    page = text_of(signed_in.get(SHOP))
    assert "The message belongs to no transaction, so nothing can be skipped." in page

    response = signed_in.post(address(row), {"decision": "skip", "xid": ""})
    assert response.status_code == 422
    with pytest.raises(ValueError, match="nothing that could be skipped"):
        decide(row.pk, "skip", "bob")


def test_a_logical_message_is_skipped_by_its_lsn(signed_in: Client, scene: Scene) -> None:
    row = make(scene, xid=None, tag="M")
    signed_in.post(address(row), {"decision": "skip", "xid": "2/4E91A5B0"})

    row.refresh_from_db()
    assert row.decision == "skip"


def test_what_waits_for_a_decision_comes_first(scene: Scene) -> None:
    make(scene, decision="skip", decided_by="alice")
    undecided = make(scene)
    make(scene, decision="retry", decided_by="alice")

    assert open_quarantine(scene.slots["shop/replview"]) == undecided


def test_a_decision_that_is_not_obeyed_is_told(signed_in: Client, scene: Scene) -> None:
    long_ago = timezone.now() - timedelta(minutes=1)
    make(scene, decision="retry", decided_by="alice", decided_at=long_ago)

    stops = stopped_by()
    assert stops.overdue
    assert stops.follows.startswith("The receiver has not done so yet.")
    assert "replview slot start shop replview" in text_of(signed_in.get(SHOP))


def test_a_skip_that_waits_in_a_running_stream_is_no_trouble(scene: Scene) -> None:
    long_ago = timezone.now() - timedelta(minutes=1)
    make(scene, decision="skip", decided_by="alice", decided_at=long_ago)
    Slot.objects.update(state="streaming", problem_code="")

    stops = stopped_by()
    assert not stops.overdue
    assert stops.follows == "It is received again, and skipped."


def test_settled_ones_are_listed(signed_in: Client, scene: Scene) -> None:
    at = timezone.now()
    row = make(scene, decision="skip", decided_by="alice", decided_at=at, settled_at=at)
    Slot.objects.update(state="streaming", problem_code="")

    page = page_of()
    assert (page.settled, page.quarantined) == ([row], None)
    rendered = text_of(signed_in.get(SHOP))
    assert "<b>skipped</b> by alice" in spaced(rendered)
    assert 'id="quarantine"' not in rendered


def test_the_raw_message_is_shown_as_a_dump(signed_in: Client, stopped: Quarantine) -> None:
    message = read_raw(stopped)
    assert message.dump == hex_dump(b"I\x00<b>raw</b>\xff")
    assert (message.rest_bytes, message.withheld, message.erased) == (0, "", False)

    part = text_of(signed_in.get(address(stopped, "raw/")))
    assert "49 00 3c 62 3e 72 61 77  3c 2f 62 3e ff" in part
    assert "|I.&lt;b&gt;raw&lt;/b&gt;.|" in part
    assert "<html" not in part
    assert "Download the whole message" in spaced(part)
    Quarantine.objects.filter(pk=stopped.pk).update(raw_bytes=100 << 20)
    part = text_of(signed_in.get(address(stopped, "raw/")))
    assert "Download the first 13\xa0B" in spaced(part)


def test_a_long_message_is_dumped_in_part(signed_in: Client, scene: Scene) -> None:
    row = make(scene, raw=b"x" * 10_000, raw_bytes=10_000)
    message = read_raw(row)

    assert message.dump.count("|xxxxxxxxxxxxxxxx|") == 256
    assert message.rest_bytes == 10_000 - 4096
    assert "5.8\xa0kB more." in text_of(signed_in.get(address(row, "raw/")))


def test_an_erased_message_is_told_as_erased(signed_in: Client, scene: Scene) -> None:
    row = make(scene, raw=b"")

    message = read_raw(row)
    assert (message.dump, message.withheld, message.erased) == ("", "", True)
    part = text_of(signed_in.get(address(row, "raw/")))
    assert "Erased: the message contains a row" in part
    assert "raw.bin" not in part


def test_the_raw_message_is_downloaded_whole(signed_in: Client, scene: Scene) -> None:
    async def gather(pieces) -> bytes:
        return b"".join([piece async for piece in pieces])

    raw = bytes(range(256)) * 40_000  # more than two pieces
    row = make(scene, raw=raw, raw_bytes=len(raw))
    response = signed_in.get(address(row, "raw.bin"))

    assert async_to_sync(gather)(response.streaming_content) == raw
    assert response["Content-Length"] == str(len(raw))
    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Disposition"] == (
        f'attachment; filename="replview-quarantine-{row.pk}.bin"'
    )


def test_a_quarantine_of_another_slot_is_not_found(signed_in: Client, stopped: Quarantine) -> None:
    for end in ("", "raw/", "raw.bin"):
        other = f"/slots/crm/replview/quarantine/{stopped.pk}/{end}"
        response = signed_in.post(other) if not end else signed_in.get(other)
        assert response.status_code == 404


def test_parts_of_the_raw_message(stopped: Quarantine) -> None:
    assert raw_length(stopped.pk) == 13
    assert raw_part(stopped.pk, 2, 3) == b"<b>"
    assert raw_part(stopped.pk, 13, 3) == b""
    assert raw_part(0, 0, 3) == b""
    assert hex_dump(b"") == ""
