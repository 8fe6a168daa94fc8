"""``replview webhook add|list|test|remove``: webhooks that receive alerts."""

import os
import sys
from typing import Any

from django.core.management.base import CommandError

from replview.features.alerts.delivery import deliver_next
from replview.features.alerts.webhook_acts import add_webhook, remove_webhook, send_test
from replview.features.alerts.webhook_form import WebhookForm
from replview.management.instance import Actions, InstanceCommand
from replview.store.models import Delivery, Webhook
from replview.store.write.access_record import command_user

#: Holds the URL for ``add``, so that it is in no process list and no shell history.
URL_VARIABLE = "REPLVIEW_WEBHOOK_URL"


class Command(Actions, InstanceCommand):
    """The command that manages webhooks."""

    help = (
        "Add, list, test and remove webhooks that receive alerts. Alerts are sent as generic JSON "
        "or in Slack's form."
    )
    examples = (
        "replview webhook add ops --url https://hooks.example/replview",
        "replview webhook test ops",
    )

    def add_actions(self, actions: Any) -> None:
        """Add the parsers of the actions on webhooks."""
        add = actions.add_parser("add", help="add a webhook, and show its signing secret once")
        add.add_argument("name", metavar="NAME")
        add.add_argument("--url", metavar="URL", help="'-' reads it from standard "
                         f"input (default: {URL_VARIABLE})")  # fmt: skip
        add.add_argument("--format", choices=Webhook.Format.values, default=Webhook.Format.JSON)
        add.add_argument(
            "--only-now", action="store_true", help="send only alerts that need somebody now"
        )
        add.add_argument("--allow-private", action="store_true", help="allow loopback, private "
                         "and link-local addresses")  # fmt: skip
        listing = actions.add_parser("list", help="list all webhooks, with host names only")
        listing.add_argument("--format", choices=["text", "json"], default="text")
        for action, text in (
            ("test", "send a test message"),
            ("remove", "remove a webhook and the record of its deliveries"),
        ):
            actions.add_parser(action, help=text).add_argument("name", metavar="NAME")

    def _add(self, options: dict[str, Any]) -> None:
        url = options["url"] or os.environ.get(URL_VARIABLE, "")
        if url == "-":
            url = sys.stdin.readline()
        if not url.strip():
            raise CommandError(f"give the URL with --url, or in {URL_VARIABLE}")
        form = WebhookForm({**options, "url": url})
        if not form.is_valid():
            raise CommandError("; ".join(str(errors[0]) for errors in form.errors.values()))
        webhook, secret = add_webhook(form, by=f"command line ({command_user()})")
        self.say(secret)
        self.stderr.write(
            f"{webhook.name} ({webhook.host}) receives alerts from now on. The secret above "
            "signs each message; it is shown only once."
        )

    def _list(self, options: dict[str, Any]) -> None:
        facts = [_facts(webhook) for webhook in Webhook.objects.all()]
        empty = "no webhooks yet: replview webhook add NAME --url URL"
        self.say_facts(facts, options["format"], empty)

    def _test(self, options: dict[str, Any]) -> None:
        webhook = _find(options["name"])
        delivery = send_test(webhook)
        # If a worker has delivered it already, this call does nothing.
        deliver_next(webhook.pk, delivery.created_at)
        delivery.refresh_from_db()
        if delivery.problem:
            raise CommandError(f"{webhook.name} ({webhook.host}): {delivery.problem}")
        state = f"answered {delivery.status}" if delivery.delivered_at else "is being sent"
        self.say(f"{webhook.name} ({webhook.host}): {state}")

    def _remove(self, options: dict[str, Any]) -> None:
        webhook = _find(options["name"])
        remove_webhook(webhook)
        self.say(f"webhook {webhook.name} is removed")


def _find(name: str) -> Webhook:
    webhook = Webhook.objects.filter(name=name).first()
    if webhook is None:
        known_names = ", ".join(Webhook.objects.values_list("name", flat=True)) or "none yet"
        raise CommandError(f"there is no webhook {name}; known: {known_names}")
    return webhook


def _facts(webhook: Webhook) -> dict[str, str]:
    last = Delivery.objects.filter(webhook=webhook, attempts__gt=0).order_by("-pk").first()
    outcome = "nothing yet"
    if last is not None:
        outcome = last.problem or f"delivered {last.delivered_at:%Y-%m-%d %H:%M:%S} UTC"
    return {
        "name": webhook.name,
        "host": webhook.host,
        "format": webhook.format,
        "state": "on" if webhook.enabled else "off",
        "severities": " ".join(webhook.severities) or "all",
        "last": outcome,
    }
