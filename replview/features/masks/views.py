"""Views that list, preview, add and remove mask rules."""

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from replview.access import mask_making
from replview.access.guard import require
from replview.access.page import ADMIN, GET_POST, POST, Nav, page
from replview.access.rights import Role
from replview.features.masks.page import build_masks_page, typed_rule
from replview.store.models import MaskRule


@page(GET_POST, role=ADMIN, nav=Nav(group="", label="Privacy", icon="eye"))
def masks(request: HttpRequest) -> HttpResponse:
    """Show the rules and the form, or add a rule. A preview is a GET, so its link can be shared."""
    require(request, Role.ADMIN)
    if request.method == "POST":
        try:
            rule = typed_rule(request.POST, by=request.user.get_username())
        except mask_making.MaskProblem as error:
            return _show(request, request.POST, error)
        mask_making.add_rule(rule, user=request.user)
        return redirect(f"{reverse('masks')}#mask-{rule.pk}")
    return _show(request, request.GET)


@page(POST, role=ADMIN, of={"rule_id": None})
def remove(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Remove a mask rule."""
    require(request, Role.ADMIN)
    mask_making.remove_rule(get_object_or_404(MaskRule, pk=rule_id), user=request.user)
    return redirect("masks")


def _show(
    request: HttpRequest, typed: QueryDict, error: mask_making.MaskProblem | None = None
) -> HttpResponse:
    page = build_masks_page(typed, by=request.user.get_username(), error=error)
    return render(request, "masks/masks.html", {"page": page}, status=422 if page.errors else 200)
