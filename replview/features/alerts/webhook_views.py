"""Views of webhooks: list them with their last deliveries, add, change and test them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from replview.access.page import ADMIN, GET_POST, POST, page
from replview.features.alerts.webhook_acts import (
    WebhookProblem,
    add_webhook,
    remove_webhook,
    send_test,
    switch_webhook,
)
from replview.store.models import AlertRule, Delivery, Webhook
from replview.text.parsing import clean_text

_DELIVERIES_SHOWN = 50
_KEPT_FIELDS = ("name", "format", "allow_private", "only_now")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhooksPage:
    """All webhooks, the last deliveries, and the form that adds a webhook."""

    #: Each webhook with the delivery that was tried last, or None.
    rows: list[tuple[Webhook, Delivery | None]]
    #: The newest first.
    deliveries: list[Delivery]
    #: The sent values that the form shows again, without the address and the secret.
    values: Mapping[str, str] = field(default_factory=lambda: {"format": Webhook.Format.JSON})
    #: Error messages of the form, by field.
    errors: Mapping[str, str] = field(default_factory=dict)
    #: The webhook that was just added, and its secret, shown once.
    made: Webhook | None = None
    secret: str = field(default="", repr=False)


def read_webhooks_page() -> WebhooksPage:
    """Read the webhooks and the last deliveries, for an empty form."""
    tried = Delivery.objects.filter(attempts__gt=0).order_by("webhook_id", "-pk")
    last = {delivery.webhook_id: delivery for delivery in tried.distinct("webhook_id")}
    deliveries = Delivery.objects.select_related("webhook", "alert").order_by("-pk")
    return WebhooksPage(
        rows=[(row, last.get(row.pk)) for row in Webhook.objects.all()],
        deliveries=list(deliveries[:_DELIVERIES_SHOWN]),
    )


@page(GET_POST, role=ADMIN, nav="alerts")
@never_cache
def webhooks(request: HttpRequest) -> HttpResponse:
    """List the webhooks, or add one; its secret is shown once, in the response."""
    if request.method == "POST":
        page = _add_from_form(request)
    else:
        page = read_webhooks_page()
    htmx = request.headers.get("HX-Request") == "true"
    template = "alerts/_webhooks.html" if htmx else "alerts/webhooks.html"
    return render(request, template, {"page": page}, status=422 if page.errors else 200)


def _add_from_form(request: HttpRequest) -> WebhooksPage:
    """Add the webhook from the form; errors are shown beside their fields."""
    sent = request.POST
    try:
        made, secret = add_webhook(
            clean_text(sent.get("name"), strip=False),
            clean_text(sent.get("url"), strip=False),
            by=request.user.get_username(),
            secret=clean_text(sent.get("secret"), strip=False),
            format=sent.get("format", ""),
            allow_private=sent.get("allow_private") == "on",
            severities=[AlertRule.Severity.NOW] if sent.get("only_now") == "on" else [],
        )
    except WebhookProblem as error:
        values = {name: sent.get(name, "")[:200] for name in _KEPT_FIELDS}
        return replace(read_webhooks_page(), values=values, errors={error.field: str(error)})
    return replace(read_webhooks_page(), made=made, secret=secret)


@page(POST, role=ADMIN, of={"webhook_id": None})
def change(request: HttpRequest, webhook_id: int) -> HttpResponse:
    """Send a test message, switch the webhook on or off, or delete it."""
    webhook, action = get_object_or_404(Webhook, pk=webhook_id), request.POST.get("action", "")
    if action == "test":
        send_test(webhook)
    elif action in ("on", "off"):
        switch_webhook(webhook, on=action == "on")
    elif action == "delete":
        remove_webhook(webhook)
    return redirect(f"{reverse('webhooks')}#deliveries" if action == "test" else "webhooks")
