"""Other pages show a strip with the firing and the recently cleared alerts."""

from django.template import engines
from django.utils import timezone

from replview.features.alerts.tags import read_alerts_strip
from replview.store.models import Alert
from tests.support.alerted_source import GB, Sampled


def test_the_strip_has_what_fires_before_what_is_over(sampled: Sampled) -> None:
    strip = read_alerts_strip()
    assert (strip.lines, strip.firing, strip.over) == ([], 0, 0)
    sampled.sample(retained_wal_bytes=6 * GB)
    sampled.sample(wal_status="lost")
    strip = read_alerts_strip()
    assert (strip.firing, strip.over) == (1, 0), "a lost slot retains nothing: that is over"
    assert [line.rule_name for line in strip.lines] == ["Slot lost"]
    Alert.objects.filter(state="cleared").update(cleared_at=timezone.now())
    strip = read_alerts_strip()
    assert (strip.firing, strip.over) == (1, 1)
    assert [line.rule_name for line in strip.lines] == [
        "Slot lost",
        "Retained WAL over half its limit",
    ]


def test_the_strip_renders(sampled: Sampled) -> None:
    template = engines["django"].from_string("{% load alerts %}{% alerts_strip %}")
    assert "No alert is firing" in template.render()
    sampled.source.name = "<b>"
    sampled.source.save()
    sampled.watched.refresh_from_db()
    sampled.sample(wal_status="lost")
    shown = template.render()
    assert "1 firing, 0 cleared today" in shown
    assert "Slot lost" in shown
    assert "&lt;b&gt;/replview" in shown
