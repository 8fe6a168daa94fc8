"""Add, switch, remove and test webhooks, and note each act in the access record."""

import datetime as dt
import secrets
from collections.abc import Iterable

from django.utils.text import capfirst

from replview.features.alerts import messages
from replview.features.alerts.webhooks import WebhookRefused, host_of, is_public, parse_url
from replview.store.models import AlertRule, Delivery, Webhook
from replview.store.secrets import seal
from replview.store.write.access_record import Action, note
from replview.text.problem import CodedProblem

_NAME_LIMIT = 100
_SECRET_LIMIT = 200


class WebhookProblem(CodedProblem, ValueError):
    """The values do not make a webhook; ``field`` names the invalid one."""

    code_of_all = "bad_webhook"
    status = 400


def add_webhook(
    name: str,
    url: str,
    *,
    by: str,
    secret: str = "",
    format: str = Webhook.Format.JSON,
    allow_private: bool = False,
    severities: Iterable[str] = (),
) -> tuple[Webhook, str]:
    """Add a webhook, and return it with its signing secret, generated if none is given.

    Raises ``WebhookProblem``.
    """
    name, secret = name.strip(), secret.strip()
    if not name or len(name) > _NAME_LIMIT:
        raise WebhookProblem(f"Give it a name of at most {_NAME_LIMIT} characters", field="name")
    if Webhook.objects.filter(name=name).exists():
        raise WebhookProblem("There is a webhook of this name already", field="name")
    host = _check_url(url, allow_private)
    if format not in Webhook.Format.values:
        raise WebhookProblem("Choose one of the formats", field="format")
    if len(secret) > _SECRET_LIMIT:
        raise WebhookProblem(f"At most {_SECRET_LIMIT} characters", field="secret")
    chosen = [value for value in AlertRule.Severity.values if value in set(severities)]
    secret = secret or secrets.token_urlsafe(32)
    webhook = Webhook.objects.create(
        name=name,
        sealed_url=seal(url.strip()),
        host=host,
        format=format,
        sealed_secret=seal(secret),
        allow_private=allow_private,
        severities=chosen if len(chosen) < len(AlertRule.Severity.values) else [],
        created_by=by,
    )
    note(Action.CHANGED_SETTINGS, subject=f"webhook {name}: added")
    return webhook, secret


def switch_webhook(webhook: Webhook, *, on: bool) -> None:
    """Switch the webhook on or off for alerts that fire from now on."""
    webhook.enabled = on
    webhook.save(update_fields=["enabled"])
    note(Action.CHANGED_SETTINGS, subject=f"webhook {webhook.name}: {'on' if on else 'off'}")


def remove_webhook(webhook: Webhook) -> None:
    """Delete the webhook and its deliveries."""
    webhook.delete()
    note(Action.CHANGED_SETTINGS, subject=f"webhook {webhook.name}: removed")


def send_test(webhook: Webhook) -> Delivery:
    """Put a test message into the outbox; it is tried only once."""
    now = dt.datetime.now(dt.UTC)
    note(Action.CHANGED_SETTINGS, subject=f"webhook {webhook.name}: tested")
    return Delivery.objects.create(
        webhook=webhook, event=messages.TEST, created_at=now, next_try_at=now
    )


def _check_url(url: str, allow_private: bool) -> str:
    """Return the host of the address. Raises ``WebhookProblem``.

    A numeric private address is refused here; a host name is checked when it is called.
    """
    try:
        parts, host = parse_url(url), host_of(url)
    except WebhookRefused as error:
        raise WebhookProblem(capfirst(str(error)), field="url") from None
    try:
        public = is_public(parts.hostname or "")
    except ValueError:
        public = parts.hostname != "localhost"
    if not public and not allow_private:
        raise WebhookProblem(
            "This is a private address: allow private addresses to use it", field="url"
        )
    return host
