"""A source's health check: doctor's findings on a source that is known, at any time."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_GET

from replview.access.permitted import require
from replview.access.rights import Role
from replview.catalog.doctor.findings import problem
from replview.features.onboarding.checking import Checked, check, view_of
from replview.store.dsn import DSNError, full_conninfo
from replview.store.models import Source
from replview.store.secrets import SecretKeyChanged


@require_GET
def doctor(request: HttpRequest, source_name: str) -> HttpResponse:
    """Everything the source lacks, each with the SQL that mends it; looked for anew each time."""
    source = get_object_or_404(Source, name=source_name)
    require(request, Role.OPERATOR, source)
    try:
        checked = check(full_conninfo(source))
    except (DSNError, SecretKeyChanged) as error:
        found = problem("bad_dsn", str(error), "Correct the source's address")
        checked = Checked([view_of(found)], blocked=True)
    page = {"source": source, "checked": checked, "checked_at": timezone.now()}
    return render(request, "onboarding/doctor.html", page)
