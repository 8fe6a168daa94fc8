"""Jump to a transaction by LSN, xid or gid, or to a moment."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from replview.features.transactions.jump import find_transaction
from replview.store.read.transactions.transaction_filter import read_time


@require_GET
def search(request: HttpRequest) -> HttpResponse:
    """To the transaction, or to the list at that moment; where there is none, a page that says
    what was looked for.
    """
    text = request.GET.get("q", "").replace("\0", "").strip()[:200]
    if not text:
        return redirect("overview")
    found = find_transaction(text)
    if found is not None:
        return redirect("transaction", transaction_id=found.pk)
    if not text.isdigit() and read_time(text) is not None:
        words = {"slot": request.GET.get("slot", ""), "at": text}
        query = urlencode({name: word for name, word in words.items() if word}, safe="/:")
        return redirect(f"{reverse('transactions')}?{query}")
    return render(request, "transactions/search/nothing.html", {"text": text}, status=404)
