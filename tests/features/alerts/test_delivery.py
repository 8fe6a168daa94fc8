"""Webhooks against a real HTTP server: signed, tried again, and never where they must not go."""

import datetime as dt
import json
import socket
import threading
import time
from contextlib import suppress

import pytest

from replview.features.alerts import delivery, webhooks
from replview.features.alerts.delivery import deliver_due, deliver_next, pause_after
from replview.features.alerts.evaluation import evaluate
from replview.features.alerts.messages import announce
from replview.features.alerts.webhook_acts import send_test
from replview.features.alerts.webhook_form import WebhookForm
from replview.features.alerts.webhooks import WebhookRefused, is_public, post, signature
from replview.store.models import AccessRecord, Delivery, Webhook
from tests.support.alerted_source import GB, Sampled
from tests.support.waiting import wait_for
from tests.support.webhook_server import Hook, make_webhook
from tests.support.webhook_server import hook as hook


def add(hook: Hook, **values) -> tuple[Webhook, str]:
    return make_webhook("ops", hook.url, allow_private=True, **values)


def test_an_alert_is_delivered_signed_and_once(sampled: Sampled, hook: Hook) -> None:
    _, secret = add(hook)
    sampled.sample(retained_wal_bytes=6 * GB)
    sampled.sample(retained_wal_bytes=0)
    sampled.sample()

    done = [deliver_next(Webhook.objects.get().pk, sampled.now) for _ in range(3)]

    assert [d and (d.event, d.status, d.problem) for d in done] == [
        ("fired", 204, ""), ("cleared", 204, ""), None,
    ]  # fmt: skip
    headers, body = hook.received[0]
    sent = json.loads(body)
    assert sent["message"].startswith("shop/replview retains 60 %")
    assert sent["alert"]["kind"] == "retained_share"
    assert (sent["alert"]["source"], sent["alert"]["slot"]) == ("shop", "replview")
    expected = signature(secret, int(headers["Replview-Timestamp"]), body)
    assert headers["Replview-Signature"] == expected
    assert headers["Idempotency-Key"] == sent["delivery"] != json.loads(hook.received[1][1])
    assert headers["Host"] == f"127.0.0.1:{hook.server_port}"


def test_slack_is_sent_text(sampled: Sampled, hook: Hook) -> None:
    add(hook, format="slack", only_now=True)
    sampled.source.name = "<!channel>&"
    sampled.source.save()
    sampled.watched.refresh_from_db()
    sampled.sample(replay_lag_seconds=90)
    sampled.sample(wal_status="lost")
    deliver_next(Webhook.objects.get().pk, sampled.now)
    assert len(Delivery.objects.all()) == 1, "only what needs somebody now was asked for"
    assert json.loads(hook.received[0][1]) == {
        "text": ":rotating_light: *Needs you now*: &lt;!channel&gt;&amp;/replview is lost: the "
        "source removed WAL that it still needed."
    }


def test_it_is_tried_again_with_growing_pauses_under_the_same_id(
    sampled: Sampled, hook: Hook
) -> None:
    webhook, _ = add(hook)
    hook.statuses = [503, 302]
    sampled.sample(wal_status="lost")
    now = sampled.now

    first = deliver_next(webhook.pk, now)
    assert first is not None
    assert (first.problem, first.status) == ("answered 503", 503)
    assert deliver_next(webhook.pk, now) is None
    second = deliver_next(webhook.pk, now + dt.timedelta(seconds=3))
    assert second is not None
    assert second.problem == "answered 302: redirects are not followed"
    third = deliver_next(webhook.pk, now + dt.timedelta(seconds=30))
    assert third is not None
    assert third.delivered_at

    assert len({headers["Idempotency-Key"] for headers, _ in hook.received}) == 1
    assert len({body for _, body in hook.received}) == 1
    assert len(hook.received) == 3, "the redirect was not followed"
    assert pause_after(3) > pause_after(1)
    assert pause_after(40).total_seconds() <= 1.25 * 3600


def test_it_is_given_up_after_a_day(sampled: Sampled, hook: Hook) -> None:
    webhook, _ = add(hook)
    hook.statuses = [500]
    sampled.sample(wal_status="lost")
    late = sampled.now + dt.timedelta(days=1, seconds=1)
    found = deliver_next(webhook.pk, late)
    assert found is not None
    assert (found.given_up_at, found.next_try_at) == (late, None)
    assert deliver_next(webhook.pk, late + dt.timedelta(days=1)) is None


REFUSED = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0",
    "100.64.0.1", "224.0.0.1", "255.255.255.255", "198.18.0.1", "240.0.0.1",
    "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
    "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::",
    "2001:db8::1",
]  # fmt: skip


@pytest.mark.parametrize("address", REFUSED)
def test_private_addresses_are_refused(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_ones_are_not(address: str) -> None:
    assert is_public(address)


def test_a_private_address_is_not_called_unless_allowed(db, hook: Hook) -> None:
    form = WebhookForm({"name": "ops", "url": hook.url, "format": "json"})
    assert list(form.errors) == ["url"]
    assert "private address" in form.errors["url"][0]
    for url in (hook.url, hook.url.replace("127.0.0.1", "localhost")):
        with pytest.raises(WebhookRefused, match="no public address"):
            post(url, b"{}", secret="", delivery_id="1")
    # In other notations, too.
    for host in ("2130706433", "0x7f000001", "127.1", "[::ffff:7f00:1]"):
        with pytest.raises(WebhookRefused):
            post(f"http://{host}:{hook.server_port}/", b"{}", secret="", delivery_id="1")
    assert hook.received == []


def test_the_address_that_was_checked_is_the_one_connected_to(hook: Hook, monkeypatch) -> None:
    connected = []

    def create_connection(address, timeout):
        connected.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(webhooks.socket, "create_connection", create_connection)
    answers = iter([["93.184.215.14"], ["127.0.0.1"]])

    def resolve(host: str, port: int) -> list[str]:
        return next(answers)

    url = f"http://rebinding.example:{hook.server_port}/"
    with pytest.raises(ConnectionRefusedError):
        post(url, b"{}", secret="", delivery_id="1", resolve=resolve)
    assert connected == [("93.184.215.14", hook.server_port)], "asked once, connected to that"
    with pytest.raises(WebhookRefused):
        post(url, b"{}", secret="", delivery_id="1", resolve=resolve)
    assert len(connected) == 1


@pytest.mark.parametrize(
    "url",
    ["ftp://x.example/", "http://", "http://user:pw@x.example/", "http://x.example:99999/",
     "http://x.example/a b", "http://x.example/\r\nX: y", "file:///etc/passwd", "javascript:1"],
)  # fmt: skip
def test_what_is_no_webhooks_address(db, url: str) -> None:
    form = WebhookForm({"name": "ops", "url": url, "format": "json", "allow_private": True})
    assert list(form.errors) == ["url"]


def test_one_that_drips_is_cut_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        drops: list[bytes] = []

        def drip() -> None:
            peer, _ = server.accept()
            with peer, suppress(OSError):
                # For 30 s and more, unless it is cut off.
                while len(drops) < 600:
                    peer.sendall(b"H")
                    drops.append(b"H")
                    time.sleep(0.05)

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(TimeoutError):
            post(f"http://127.0.0.1:{server.getsockname()[1]}/", b"{}", secret="",
                 delivery_id="1", allow_private=True, timeout_seconds=0.4)  # fmt: skip
        thread.join()
        assert 0 < len(drops) < 600


def test_address_and_secret_are_sealed_and_not_logged(sampled: Sampled, hook: Hook, caplog) -> None:
    webhook, secret = add(hook)
    kept = json.dumps(Webhook.objects.values().get(), default=str)
    assert "secret?a=b" not in kept
    assert secret not in kept
    hook.shutdown()
    hook.server_close()
    send_test(webhook)
    assert AccessRecord.objects.filter(subject="webhook ops: tested").exists()
    found = deliver_next(webhook.pk)
    assert found is not None
    assert found.problem == "the connection was refused"
    assert found.given_up_at, "a test is tried once"
    assert "hooks" not in caplog.text


@pytest.mark.django_db(transaction=True)
def test_one_webhook_that_hangs_does_not_delay_another(hook: Hook, monkeypatch) -> None:
    monkeypatch.setattr(webhooks, "TIMEOUT_SECONDS", 120)
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}/"
        slow, _ = make_webhook("slow", url, allow_private=True)
        quick, _ = add(hook)
        send_test(slow)
        send_test(quick)
        waiting = deliver_due()
        delivered = Delivery.objects.filter(webhook=quick, delivered_at__isnull=False)
        wait_for(delivered.exists)
        assert not Delivery.objects.get(webhook=slow).problem, "it still hangs"
        hanging.close()
        for future in waiting:
            future.result(timeout=60)
    assert not delivery._busy


def test_nothing_is_told_twice_by_evaluating_again(sampled: Sampled, hook: Hook) -> None:
    add(hook)
    (alert,) = sampled.sample(wal_status="lost")
    evaluate(sampled.now)
    assert Delivery.objects.count() == 1
    announce(alert, sampled.now)
    assert Delivery.objects.count() == 2
