"""Views of webhooks: list them with their last deliveries, add, change and test them."""

from dataclasses import dataclass, field, replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from replview.access.page import ADMIN, GET_POST, POST, page
from replview.features.alerts.webhook_acts import (
    add_webhook,
    remove_webhook,
    send_test,
    switch_webhook,
)
from replview.features.alerts.webhook_form import WebhookForm
from replview.store.models import Delivery, Webhook

_DELIVERIES_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhooksPage:
    """All webhooks, the last deliveries, and the form that adds a webhook."""

    #: Each webhook with the delivery that was tried last, or None.
    rows: list[tuple[Webhook, Delivery | None]]
    #: The newest first.
    deliveries: list[Delivery]
    form: WebhookForm
    #: The webhook that was just added, and its secret, shown once.
    made: Webhook | None = None
    secret: str = field(default="", repr=False)


def read_webhooks_page(form: WebhookForm | None = None) -> WebhooksPage:
    """Read the webhooks and the last deliveries; ``form`` is a form that was refused."""
    tried = Delivery.objects.filter(attempts__gt=0).order_by("webhook_id", "-pk")
    last = {delivery.webhook_id: delivery for delivery in tried.distinct("webhook_id")}
    deliveries = Delivery.objects.select_related("webhook", "alert").order_by("-pk")
    return WebhooksPage(
        rows=[(row, last.get(row.pk)) for row in Webhook.objects.all()],
        deliveries=list(deliveries[:_DELIVERIES_SHOWN]),
        form=form or WebhookForm(),
    )


@page(GET_POST, role=ADMIN, nav="alerts")
@never_cache
def webhooks(request: HttpRequest) -> HttpResponse:
    """List the webhooks, or add one; its secret is shown once, in the response."""
    if request.method != "POST":
        htmx = request.headers.get("HX-Request") == "true"
        template = "alerts/_webhooks.html" if htmx else "alerts/webhooks.html"
        return render(request, template, {"page": read_webhooks_page()})
    form = WebhookForm(request.POST)
    if not form.is_valid():
        page = read_webhooks_page(form)
        return render(request, "alerts/webhooks.html", {"page": page}, status=422)
    made, secret = add_webhook(form, by=request.user.get_username())
    page = replace(read_webhooks_page(), made=made, secret=secret)
    return render(request, "alerts/webhooks.html", {"page": page})


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
