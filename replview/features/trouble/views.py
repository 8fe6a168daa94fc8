"""*Make trouble*: a demo's page only; anywhere else there is no such page."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from replview.access.page import OPERATOR, VIEWER, Nav, page
from replview.features.trouble.page import build_page
from replview.store import demo_troubles as troubles
from replview.store.write.access_record import Action, note


@page(role=VIEWER, nav=Nav(group="Demo", label="Make trouble", icon="trouble"))
@require_GET
def trouble(request: HttpRequest) -> HttpResponse:
    """A card a trouble; for htmx the part that changes."""
    _only_in_a_demo()
    htmx = request.headers.get("HX-Request") == "true"
    return render(request, "trouble/now.html" if htmx else "trouble/trouble.html", build_page())


@page(role=OPERATOR, of={"name": None, "action": None})
@require_POST
def wish(request: HttpRequest, name: str, action: str) -> HttpResponse:
    """Ask for a trouble, or for its end."""
    _only_in_a_demo()
    if not troubles.is_known(name) or action not in ("start", "end"):
        raise Http404("there is no such trouble")
    troubles.wish(name, action == "start", request.user.get_username())
    note(Action.CHANGED_SETTINGS, subject=f"trouble {name}: {action}")
    return redirect(f"{reverse('trouble')}#{name}")


def _only_in_a_demo() -> None:
    if not settings.DEMO:
        raise Http404("this is no demo")
