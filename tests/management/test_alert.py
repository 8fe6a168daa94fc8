"""``replview alert`` and ``replview webhook``."""

import datetime as dt
import json

import pytest
from django.core.management.base import CommandError
from django.db import connection
from django.utils import timezone

from replview.store.models import Alert, AlertRule, Delivery, SlotSample, Webhook
from replview.store.write.partitions import ensure_partitions
from tests.support.alerted_source import GB, Sampled, sampled
from tests.support.webhook_server import Hook, hook

__all__ = ["hook", "sampled"]


def test_what_fires_and_what_is_over(run, sampled: Sampled) -> None:
    assert run("alert", "list") == "no alert is firing\n"
    sampled.sample(retained_wal_bytes=6 * GB, replay_lag_seconds=1000)
    with pytest.raises(SystemExit):
        run("alert", "list", "--exit-code")
    lines = run("alert", "list").splitlines()
    # Lag fires once, as the graver of its two rules.
    assert [line.split()[1] for line in lines[1:]] == ["now", "look"], "worst first"
    assert "shop/replview lags by 16 min." in lines[1]
    sampled.sample(retained_wal_bytes=0)
    (over,) = [f for f in json.loads(run("alert", "list", "--all", "--format", "json"))
               if f["state"] == "over"]  # fmt: skip
    assert (over["worst"], over["value"]) == ("60 %", "0 %")


def test_rules_and_a_trial(run, sampled: Sampled) -> None:
    assert "below 1 h, over from 1 h 30 min" in run("alert", "rules")
    now = timezone.now()
    ensure_partitions(connection.connection, (now - dt.timedelta(days=1)).date(), now.date())
    for step in range(20):
        SlotSample.objects.create(
            slot_id=sampled.slot.pk, sampled_at=now - dt.timedelta(seconds=200 - 5 * step),
            active=True, replay_lag_seconds=20 if 5 <= step < 10 else 0,
        )  # fmt: skip
    assert "would have fired 0 times (checked: 1)" in run("alert", "try", "lag")
    tried = run("alert", "try", "lag", "--threshold", "10s", "--slot", "shop/replview")
    assert "would have fired 1 time" in tried
    assert "shop/replview  for 30 s  at worst 20 s" in tried
    assert AlertRule.objects.get(key="lag_look").threshold == 60
    for wrong in (["x"], ["lag", "--threshold", "10 GB"], ["lag", "--slot", "shop/x"]):
        with pytest.raises(CommandError):
            run("alert", "try", *wrong)


def test_a_rule_of_an_unknown_kind_is_listed_and_not_tried(run, sampled: Sampled) -> None:
    rule = AlertRule.objects.create(kind="newer", name="From later", severity="now", threshold=7)
    Alert.objects.create(
        rule=rule, subject="store", state="firing", began_at=sampled.now, fired_at=sampled.now,
        message="It is later.", value_last=7, rule_was={"name": "From later", "severity": "now"},
    )  # fmt: skip
    (line,) = [line for line in run("alert", "rules").splitlines() if "From later" in line]
    assert "not evaluated" in line
    assert "It is later." in run("alert", "list")
    with pytest.raises(CommandError, match="does not know its kind"):
        run("alert", "try", str(rule.pk))


def test_a_webhook_from_the_command_line(run, db, hook: Hook, monkeypatch) -> None:
    assert "no webhooks yet" in run("webhook", "list")
    with pytest.raises(CommandError, match="private address"):
        run("webhook", "add", "ops", "--url", hook.url)
    monkeypatch.setenv("REPLVIEW_WEBHOOK_URL", hook.url)
    said = run("webhook", "add", "ops", "--allow-private", "--only-now")
    assert len(said.split()[0]) > 30
    listed = run("webhook", "list")
    assert f"127.0.0.1:{hook.server_port}" in listed
    assert "secret" not in listed
    assert "answered 204" in run("webhook", "test", "ops")
    hook.statuses = [404]
    with pytest.raises(CommandError, match="answered 404"):
        run("webhook", "test", "ops")
    assert "answered 404" in run("webhook", "list")
    run("webhook", "remove", "ops")
    assert not Webhook.objects.exists()
    assert not Delivery.objects.exists()
