"""The first admin, made by whoever has the address that ``replview up`` printed."""

from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from replview.access.accounts import AccountProblem
from replview.access.setup_codes import first_admin, is_good

_BACKEND = "replview.access.backend.RightsBackend"


@never_cache
@login_not_required
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def setup(request: HttpRequest, code: str) -> HttpResponse:
    """A name and a password; then this browser is signed in."""
    if not is_good(code):
        raise Http404("this address is no longer good")
    errors: dict[str, str] = {}
    name = request.POST.get("name", "").replace("\0", "")
    if request.method == "POST":
        password = request.POST.get("password", "")
        if password != request.POST.get("again", ""):
            errors["again"] = "The two are not the same."
        else:
            try:
                user = first_admin(code, name, password)
            except AccountProblem as problem:
                errors[problem.field] = str(problem)
            else:
                if user is None:
                    raise Http404("this address is no longer good")
                login(request, user, backend=_BACKEND)
                return redirect("overview")
    page = {"errors": errors, "name": name}
    return render(request, "accounts/setup.html", page, status=422 if errors else 200)
