"""Pages require a login, show the fleet's health, and escape a source's values."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver

from replview.access.page import EVERYONE, page_named
from replview.health.states import Level
from replview.store.models import Slot, SlotEvent, Source
from tests.support.scene import Scene

PAGES = ["/", "/sources/", "/slots/", "/components/", "/search/?q=1", "/shell/health/", "/live/"]


def text_of(response) -> str:
    return response.content.decode()


@pytest.mark.parametrize("page", PAGES)
def test_it_asks_for_a_login(client: Client, db, page: str) -> None:
    response = client.get(page)

    assert response.status_code == 302
    assert response["Location"].startswith("/login/?next=")


def test_no_address_but_the_login_is_open(client: Client, db) -> None:
    for pattern in get_resolver().reverse_dict:
        if not isinstance(pattern, str) or pattern == "logout":
            continue
        said = page_named(pattern)
        if said is None or said.role != EVERYONE:
            (forms, *_rest) = get_resolver().reverse_dict.getlist(pattern)[0]
            path = "/" + forms[0][0] % dict.fromkeys(forms[0][1], 1)
            assert client.get(path).status_code in (302, 405), path


def test_metrics_refuse_a_stranger_and_only_the_probes_answer_anybody(client: Client, db) -> None:
    refused = client.get("/metrics")
    assert refused.status_code == 401, "a program is told so; it cannot fill in a login form"
    assert "replview_" not in text_of(refused)
    # Whoever restarts or balances this process has no login: they learn that it works, no more.
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code in (200, 503)


def test_the_login_page_says_what_was_wrong(client: Client, db) -> None:
    page = text_of(client.post("/login/", {"username": "x", "password": "y"}))

    assert "Please enter a correct username and password" in page


@pytest.mark.parametrize("page", PAGES[:4])
def test_every_page_renders_with_and_without_sources(
    signed_in: Client, request: pytest.FixtureRequest, page: str
) -> None:
    assert signed_in.get(page).status_code == 200
    request.getfixturevalue("scene")
    assert signed_in.get(page).status_code == 200


def test_a_lost_slot_is_seen_though_it_retains_nothing(signed_in: Client, scene: Scene) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO slot_sample (slot_id, sampled_at, wal_status) VALUES (%s, %s, 'lost')",
            [scene.slots["shop/replview"].pk, scene.now + timedelta(milliseconds=1)],
        )

    assert "replview is lost." in text_of(signed_in.get("/slots/"))


def test_first_run_offers_three_ways(signed_in: Client) -> None:
    page = text_of(signed_in.get("/"))

    assert "replview watch" in page
    assert "replview source add" in page
    assert "replview slot add" in page
    assert page.count("<dt>Risk</dt>") == 3


def test_first_run_gives_way_to_the_first_source(signed_in: Client) -> None:
    poll = {"HX-Request": "true"}
    assert signed_in.get("/?first", headers=poll).status_code == 204
    assert signed_in.get("/", headers=poll)["HX-Refresh"] == "true"

    Source.objects.create(name="shop", conninfo="host=shop.example")
    assert signed_in.get("/?first", headers=poll)["HX-Refresh"] == "true"


def test_values_of_a_source_are_escaped(signed_in: Client, scene: Scene) -> None:
    evil = '<img src=x onerror="alert(1)">'
    slot = scene.slots["shop/replview"]
    Slot.objects.filter(pk=slot.pk).update(
        problem_code="evil", problem_cause=evil, problem_remedy=f"ALTER ROLE {evil} LOGIN",
        state="failed",
    )  # fmt: skip
    SlotEvent.objects.create(slot=slot, kind="problem", message=evil)
    scene.transaction("shop/replview", "prepared", timedelta(hours=10), gid=evil)

    for page in ("/", "/sources/", "/slots/"):
        assert "<img src=x" not in text_of(signed_in.get(page))


def test_a_remedy_can_be_copied(signed_in: Client, scene: Scene) -> None:
    Slot.objects.filter(pk=scene.slots["crm/replview"].pk).update(
        state="failed", problem_code="no_replication_privilege",
        problem_cause="role replview may not open a replication connection",
        problem_remedy="ALTER ROLE replview REPLICATION (on managed services their own role)",
    )  # fmt: skip
    page = text_of(signed_in.get("/sources/"))

    assert 'data-copy="ALTER ROLE replview REPLICATION;"' in page
    assert "(on managed services their own role)" in page


def test_the_header_tells_the_health_of_the_scope(signed_in: Client, scene: Scene) -> None:
    answer = signed_in.get("/shell/health/?slot=shop/replview")
    health = answer.context["shell"].health

    assert (health.level, health.word, health.rest) == (Level.OK, "caught up", "23\xa0tx/s")
    assert str(health.lsn) == "2/4E91C3D8"
    part = text_of(answer)
    assert "caught up" in part
    assert "2/4E91C3D8" in part


def test_search_jumps_to_the_transaction(signed_in: Client, scene: Scene) -> None:
    row = scene.transaction("shop/replview", "prepared", timedelta(0), gid="the one", xid=77)

    for text in ("the one", "77"):
        response = signed_in.get("/search/", {"q": text})
        assert response["Location"] == f"/transactions/{row.pk}/"
    assert signed_in.get("/search/", {"q": "nobody"}).status_code == 404


def test_search_finds_the_commit_an_lsn_falls_into(signed_in: Client, scene: Scene) -> None:
    incarnation = scene.slots["warehouse/replview"].incarnation
    assert incarnation is not None
    rows = [
        scene.transaction("warehouse/replview", "committed", timedelta(0), commit_seq=number,
                          commit_lsn=number * 0x100)
        for number in range(1, 10)
    ]  # fmt: skip
    incarnation.commit_seq = 9
    incarnation.save()

    for text, expected in (("0/1", rows[0]), ("0/301", rows[3]), ("0/900", rows[8])):
        response = signed_in.get("/search/", {"q": text})
        assert response["Location"] == f"/transactions/{expected.pk}/"
    assert signed_in.get("/search/", {"q": "0/901"}).status_code == 404


def test_search_looks_in_the_chosen_slot_first_and_offers_what_else_matches(
    signed_in: Client, scene: Scene
) -> None:
    mine, theirs = (
        scene.transaction(slot, "committed", timedelta(0), commit_seq=900, commit_lsn=0x500, xid=7)
        for slot in ("shop/replview", "warehouse/replview")
    )
    for name in ("shop/replview", "warehouse/replview"):
        incarnation = scene.slots[name].incarnation
        assert incarnation is not None
        incarnation.commit_seq = 900
        incarnation.save()

    for text in ("0/500", "7"):
        for slot, row in (("shop/replview", mine), ("warehouse/replview", theirs)):
            answer = signed_in.get("/search/", {"q": text, "slot": slot})
            assert answer["Location"] == f"/transactions/{row.pk}/"
        several = text_of(signed_in.get("/search/", {"q": text}))
        assert "2 transactions match" in several
        assert f"/transactions/{mine.pk}/" in several
        assert f"/transactions/{theirs.pk}/" in several


def test_queries_do_not_grow_with_the_number_of_sources(signed_in: Client, scene: Scene) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            signed_in.get("/")
        return len(seen)

    signed_in.get("/")
    before = queries()
    for number in range(20):
        scene.source(f"more-{number}", 180004)
        scene.slot(f"more-{number}", "replview")
    assert queries() <= before + 2  # the sparklines are drawn anew
    assert before <= 16
