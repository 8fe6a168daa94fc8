"""Views that list, preview, add and remove mask rules."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from replview.access import mask_making
from replview.access.guard import require
from replview.access.page import ADMIN, GET_POST, POST, Nav, page
from replview.access.rights import Role
from replview.features.masks.forms import MaskForm
from replview.features.masks.page import build_masks_page
from replview.store.models import MaskRule


@page(GET_POST, role=ADMIN, nav=Nav(group="", label="Privacy", icon="eye"))
def masks(request: HttpRequest) -> HttpResponse:
    """Show the rules and the form, or add a rule. A preview is a GET, so its link can be shared."""
    require(request, Role.ADMIN)
    is_sent = request.method == "POST"
    params = request.POST if is_sent else request.GET
    form = MaskForm(params, by=request.user.get_username(), is_sent=is_sent)
    if is_sent and form.is_valid() and form.rule:
        rule = mask_making.add_rule(form.rule, user=request.user)
        return redirect(f"{reverse('masks')}#mask-{rule.pk}")
    page, status = build_masks_page(form), 422 if form.errors else 200
    return render(request, "masks/masks.html", {"page": page}, status=status)


@page(POST, role=ADMIN, of={"rule_id": None})
def remove(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Remove a mask rule."""
    require(request, Role.ADMIN)
    mask_making.remove_rule(get_object_or_404(MaskRule, pk=rule_id), user=request.user)
    return redirect("masks")
