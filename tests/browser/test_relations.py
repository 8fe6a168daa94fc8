"""Relations in a browser: two versions compared, and a source that does not answer."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.db import connection
from django.utils import timezone
from playwright.sync_api import Page, expect

from replview.store.models import Relation, RelationVersion
from tests.browser.conftest import Server
from tests.support.feeder import Feeder, single

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture(autouse=True)
def no_session_left(page: Page) -> Iterator[None]:
    """Close the store connection that the test opened while Playwright's event loop runs."""
    yield
    connection.close()


@pytest.fixture
def payments(feeder: Feeder) -> int:
    """``public.payments`` with a second version; the relation's id."""
    relation, version = feeder.relations["payments"]
    first = RelationVersion.objects.get(pk=version)
    added = {"name": "note", "type": "text", "type_oid": 25, "typmod": -1, "key": False}
    second = RelationVersion.objects.create(
        relation_id=relation, number=2, digest="2", schema="public", table="payments",
        replica_identity="DEFAULT", columns=[*first.columns, added], key_columns=["id"],
        first_seen_at=timezone.now(),
    )  # fmt: skip
    for row in (first, second):
        Relation.objects.filter(pk=relation).update(current_version=row)
    feeder.commit(single(1), single(2))
    return relation


def serious(page: Page) -> list[str]:
    """Accessibility findings that keep somebody out."""
    found = Axe().run(page).response["violations"]
    return [one["id"] for one in found if one["impact"] in ("serious", "critical")]


def test_two_versions_are_chosen_and_compared(
    page: Page, server: Server, feeder: Feeder, payments: int
) -> None:
    page.goto(f"{server.url}/relations/?slot=shop/replview")
    expect(page.locator("h1")).to_contain_text("last changed: public.payments")
    assert serious(page) == []
    page.click("td a:has-text('payments')")

    expect(page.locator("h1")).to_contain_text("public.payments is at version 2")
    expect(page.locator(".diff-added")).to_contain_text("note")
    # The link opens the menu once the page's script is there.
    page.wait_for_load_state("load")
    page.click("[data-compare]")
    expect(page.locator("#from-menu .menu-list")).to_be_visible()
    page.keyboard.press("Escape")
    page.click("[aria-label='Swap before and after']")
    expect(page.locator(".diff-dropped")).to_contain_text("note")
    page.click("text=Changed only")
    expect(page.locator(".diff-table tbody tr")).to_have_count(1)


def test_a_source_that_does_not_answer_keeps_nothing_back(
    page: Page, server: Server, feeder: Feeder, payments: int
) -> None:
    page.goto(f"{server.url}/relations/{payments}/")

    expect(page.locator(".diff-table")).to_be_visible()
    expect(page.locator("#now")).to_contain_text("The source was not queried:")
    expect(page.locator("#evidence")).to_contain_text("Recorded since")
    assert serious(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.querySelector('.main').scrollWidth") <= 390
    expect(page.locator(".diff-added")).to_contain_text("added")


@pytest.mark.usefixtures("on_live_page")
def test_a_schema_change_in_the_live_list_leads_to_the_comparison(
    page: Page, server: Server, feeder: Feeder, payments: int
) -> None:
    version = RelationVersion.objects.get(relation_id=payments, number=2).pk
    feeder.event("schema", "Schema of public.payments changed: version 2.",
                 relation_id=payments, version_id=version, table="public.payments")  # fmt: skip
    feeder.commit(single(3))
    page.click("#rows .marker a:has-text('Compare')")

    expect(page.locator("h1")).to_contain_text("public.payments is at version 2")
