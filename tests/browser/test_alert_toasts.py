"""Toasts of alerts that fire or are over while a page is open; a slot's page with its charts."""

from collections.abc import Iterator

import pytest
from django.db import connection
from django.utils import timezone
from playwright.sync_api import Page, expect

from replview.features.alerts.built_in import ensure
from replview.store.models import Alert, AlertRule, Slot
from tests.browser.conftest import Server
from tests.browser.health_story import OTHER, tell_health
from tests.support.feeder import Feeder

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]

#: Sums up the page's unexpected layout shifts, as the browser scores them.
_SHIFTS = """new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.shifted = (window.shifted ?? 0) + entry.value;
}).observe({ type: "layout-shift", buffered: true });"""


@pytest.fixture(autouse=True)
def no_session_left(page: Page) -> Iterator[None]:
    """Drop the sample table and close the connection opened while Playwright's event loop runs."""
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS slot_sample_story")
    connection.close()


def fire(*names: str) -> list[Alert]:
    ensure()
    rule, now = AlertRule.objects.filter(kind="lag")[0], timezone.now()
    return [
        Alert.objects.create(
            rule=rule, subject=name, state="firing", began_at=now, fired_at=now,
            message=f"{name} lags by <b>2 min</b>.", detail={"name": name},
            rule_was={"name": rule.name, "severity": "look"},
        )
        for name in names
    ]  # fmt: skip


def test_an_alert_is_told_once_and_its_end_takes_its_place(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/sources/")
    toasts = page.locator("#alert-toasts .toast")
    expect(toasts).to_have_count(0)
    [alert] = fire("a slot")

    expect(toasts).to_have_count(1)
    expect(toasts).to_contain_text("a slot lags by <b>2 min</b>.")
    assert (toasts.locator("a").get_attribute("href") or "").endswith(f"/alerts/{alert.pk}/")
    Alert.objects.filter(pk=alert.pk).update(state="cleared", cleared_at=timezone.now())
    expect(toasts).to_contain_text("over after")
    expect(toasts).to_have_count(1)
    toasts.get_by_role("button", name="Dismiss").click()
    expect(toasts).to_have_count(0)

    # Another page of this tab was told already.
    page.goto(f"{server.url}/slots/")
    with page.expect_response(lambda answer: "/shell/health/" in answer.url):
        pass
    page.wait_for_timeout(200)
    expect(toasts).to_have_count(0)


def test_many_at_once_are_folded(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/sources/")
    fire("a", "b", "c", "d", "e")

    toasts = page.locator("#alert-toasts .toast")
    expect(toasts).to_have_count(4)
    expect(toasts.last).to_contain_text("2 more fired. Open the alerts")


def test_a_slots_page_draws_its_charts_where_it_kept_room_for_them(
    page: Page, server: Server, feeder: Feeder
) -> None:
    slot = Slot.objects.select_related("source").get(pk=feeder.slot_id)
    tell_health(slot)
    page.add_init_script(_SHIFTS)
    page.set_viewport_size({"width": 1440, "height": 1600})
    for name in (OTHER, slot.name):  # only watched, and ours
        page.goto(f"{server.url}/slots/{slot.source.name}/{name}/")
        expect(page.locator("#lag-charts .js-plotly-plot")).to_have_count(3)

    expect(page.locator("#lag-charts")).to_have_attribute("aria-busy", "false")
    expect(page.locator("#chart-retained .lag-at")).to_contain_text("31.5 GB")
    assert page.evaluate("window.shifted ?? 0") < 0.01

    # The page around it is renewed every two seconds; what is dragged over opens on the lag page.
    page.wait_for_timeout(2500)
    box = page.locator("#chart-lag .lag-plot").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 300, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 50, steps=4)
    page.mouse.up()
    page.wait_for_url("**/lag/?slot=shop/replview&range=1h&from=*")
