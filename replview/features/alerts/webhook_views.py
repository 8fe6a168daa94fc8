"""The webhooks page: which there are, their last deliveries, and what is done to one."""

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

_LAST_DELIVERIES = 50
_SHOWN_AGAIN = ("name", "format", "allow_private", "only_now")


@page(GET_POST, role=ADMIN, nav="alerts")
@never_cache
def webhooks(request: HttpRequest) -> HttpResponse:
    """The list and the form; a new webhook's secret is shown in the answer, once."""
    page: dict[str, object] = {"values": {"format": "json"}, "errors": {}}
    status = 200
    if request.method == "POST":
        sent = request.POST
        try:
            page["made"], page["secret"] = add_webhook(
                clean_text(sent.get("name"), strip=False),
                clean_text(sent.get("url"), strip=False),
                by=request.user.get_username(),
                secret=clean_text(sent.get("secret"), strip=False),
                format=sent.get("format", ""),
                allow_private=sent.get("allow_private") == "on",
                severities=[AlertRule.Severity.NOW] if sent.get("only_now") == "on" else [],
            )
        except WebhookProblem as error:
            page["values"] = {name: sent.get(name, "")[:200] for name in _SHOWN_AGAIN}
            page["errors"] = {error.field: str(error)}
            status = 422
    htmx = request.headers.get("HX-Request") == "true"
    template = "alerts/_webhooks.html" if htmx else "alerts/webhooks.html"
    return render(request, template, {**page, **_listed()}, status=status)


@page(POST, role=ADMIN, of={"webhook_id": None})
def change(request: HttpRequest, webhook_id: int) -> HttpResponse:
    """Send a test message, switch on or off, or delete."""
    webhook, action = get_object_or_404(Webhook, pk=webhook_id), request.POST.get("action", "")
    if action == "test":
        send_test(webhook)
    elif action in ("on", "off"):
        switch_webhook(webhook, on=action == "on")
    elif action == "delete":
        remove_webhook(webhook)
    return redirect(f"{reverse('webhooks')}#deliveries" if action == "test" else "webhooks")


def _listed() -> dict[str, object]:
    tried = Delivery.objects.filter(attempts__gt=0).order_by("webhook_id", "-pk")
    last = {one.webhook_id: one for one in tried.distinct("webhook_id")}
    deliveries = Delivery.objects.select_related("webhook", "alert").order_by("-pk")
    return {
        "rows": [(row, last.get(row.pk)) for row in Webhook.objects.all()],
        "deliveries": list(deliveries[:_LAST_DELIVERIES]),
    }
