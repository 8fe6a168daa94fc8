"""Add, switch, remove and test webhooks, and note each act in the access record."""

import datetime as dt
import secrets

from replview.features.alerts import messages
from replview.features.alerts.webhook_form import WebhookForm
from replview.features.alerts.webhooks import host_of
from replview.store.models import AlertRule, Delivery, Webhook
from replview.store.secrets import seal
from replview.store.write.access_record import Action, note


def add_webhook(form: WebhookForm, *, by: str) -> tuple[Webhook, str]:
    """Add the webhook of a valid form, and return it with its signing secret.

    A secret is generated if none was entered.
    """
    data = form.cleaned_data
    secret = data["secret"] or secrets.token_urlsafe(32)
    webhook = Webhook.objects.create(
        name=data["name"],
        sealed_url=seal(data["url"]),
        host=host_of(data["url"]),
        format=data["format"],
        sealed_secret=seal(secret),
        allow_private=data["allow_private"],
        severities=[AlertRule.Severity.NOW] if data["only_now"] else [],
        created_by=by,
    )
    note(Action.CHANGED_SETTINGS, subject=f"webhook {webhook.name}: added")
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
