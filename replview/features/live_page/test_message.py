"""*Send a test message*: the one thing a page ever writes to a source, and only when asked."""

from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST

from replview.catalog.problems import SourceTrouble
from replview.catalog.test_message import send_test_message
from replview.store.dsn import DSNError, full_conninfo
from replview.store.models import Slot
from replview.store.secrets import SecretKeyChanged
from replview.store.write.access_record import Action, note
from replview.text.remedies import split_remedy


@require_POST
def send(request: HttpRequest, slot_id: int) -> JsonResponse:
    """Send it to the slot's source; what went wrong is named, with what mends it."""
    slot = get_object_or_404(Slot.objects.select_related("source"), pk=slot_id)
    try:
        lsn = send_test_message(full_conninfo(slot.source), request.user.get_username())
    except SourceTrouble as error:
        return _trouble(error.trouble.cause, error.trouble.remedy)
    except (DSNError, SecretKeyChanged) as error:
        return _trouble(str(error), "")
    note(Action.CHANGED_SOURCE, subject="a test message was written", source_id=slot.source_id)
    return JsonResponse({"lsn": lsn})


def _trouble(cause: str, remedy: str) -> JsonResponse:
    parts = split_remedy(remedy)
    words = {"cause": cause, "before": parts.before, "run": parts.run, "after": parts.after}
    return JsonResponse(words, status=502)
