"""What other pages show of alerts."""

from django.template import engines

from tests.support.alerted_source import GB, Sampled


def test_the_strip_has_what_fires_before_what_is_over(sampled: Sampled) -> None:
    template = engines["django"].from_string("{% load alerts %}{% alerts_strip %}")
    assert "None fires" in template.render()
    sampled.sample(retained_wal_bytes=6 * GB)
    sampled.sample(wal_status="lost")
    shown = template.render()
    assert "1 firing, 0 cleared today" in shown, "a lost slot retains nothing: that is over"
    assert "Slot lost" in shown
