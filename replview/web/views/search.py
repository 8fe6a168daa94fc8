"""Jump to a transaction by LSN, xid or gid."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from replview.web.jump import find_transaction


@require_GET
def search(request: HttpRequest) -> HttpResponse:
    """To the transaction; where there is none, a page that says what was looked for."""
    text = request.GET.get("q", "").replace("\0", "").strip()[:200]
    if not text:
        return redirect("overview")
    found = find_transaction(text)
    if found is not None:
        return redirect("transaction", transaction_id=found.pk)
    return render(request, "search/nothing.html", {"text": text}, status=404)
