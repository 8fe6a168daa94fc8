"""Build ``/api/v1/`` from the features' routers, with authentication, errors and documentation."""

from collections import defaultdict
from collections.abc import Iterable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern
from ninja import NinjaAPI, Router
from ninja.openapi.docs import DocsBase
from ninja.operation import Operation

from replview.access.page import VIEWER, Page, page, page_of
from replview.ui.api.access import Token, signed_in
from replview.ui.api.answers import add_answers

DESCRIPTION = """
What replview recorded, for programs: the same filters, in the same words, as on the pages.

Lists come a page at a time: `older` and `newer` are cursors, to be given back as `cursor`; there is
no page number and no total, because nothing is counted to draw a page. Where `complete` is false,
the time for one answer was over before the page was full: go on with `older`.

A value is the server's exact text; `null` is SQL NULL; a column in `not_sent` was not sent. Every
answer about a slot states its coverage: since when it records, gaps, what is not published.
"""


class LocalDocs(DocsBase):
    """Swagger UI from this host, in a page that obeys the Content-Security-Policy."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: object) -> HttpResponse:
        """Render Swagger UI with the address of the API's description."""
        url = self.get_openapi_url(api, {})
        settings = {"url": url, "layout": "BaseLayout", "deepLinking": True}
        return render(request, "ui/api/docs.html", {"settings": settings, "openapi_url": url})


def new_api(routers: Iterable[Router]) -> NinjaAPI:
    """Return the API with the routers of the features."""
    api = NinjaAPI(
        title="replview",
        version="1",
        description=DESCRIPTION,
        urls_namespace="api",
        docs=LocalDocs(),
        auth=[Token(), signed_in],
    )
    add_answers(api)
    for router in routers:
        api.add_router("", router)
    return api


def urls_of(api: NinjaAPI, routers: Iterable[Router]) -> list[URLPattern]:
    """Return the API's addresses, which the API guards itself, without the pages' login.

    Several methods may share an address, which gets the ``@page`` of each operation.
    """
    operations: dict[str, Operation] = {
        operation.view_func.__name__: operation
        for router in routers
        for path_view in router.path_operations.values()
        for operation in path_view.operations
    }
    patterns = [pattern for pattern in api.urls[0] if isinstance(pattern, URLPattern)]
    by_route: dict[str, dict[str, Page | None]] = defaultdict(dict)
    for pattern in patterns:
        if operation := operations.get(pattern.name or ""):
            pages = dict.fromkeys(operation.methods, page_of(operation.view_func))
            by_route[str(pattern.pattern)].update(pages)
    for pattern in patterns:
        if pattern.name in operations:
            pattern.callback.replview_page = by_route[str(pattern.pattern)]  # type: ignore[attr-defined]
        else:
            # This address is the description of the API.
            page(role=VIEWER)(pattern.callback)
        if pattern.name != "openapi-view":
            pattern.callback.login_required = False  # type: ignore[attr-defined]
    return patterns
