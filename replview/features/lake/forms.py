"""The forms of lakes: a new one, its schedule, and the name that confirms its removal.

The rules are in ``request``: the forms ask them, and show what they refuse beside the field.
"""

import itertools
import re
from collections.abc import Mapping
from typing import Any

from django import forms

from replview.features.lake.request import MOST_MINUTES, check
from replview.store.models import Lake, Slot
from replview.targets.policy import Refused
from replview.text.parsing import listed
from replview.ui.forms import SlotField, add_problem, text_field

#: Folder of lakes within that of exports, where no other one is named.
DEFAULT_ROOT = "lake"


def _minutes_field() -> forms.IntegerField:
    return forms.IntegerField(
        label="Run every … minutes",
        help_text="Empty: only when somebody asks.",
        required=False,
        error_messages={"invalid": f"Write a number from 1 to {MOST_MINUTES}, or leave it out."},
        widget=forms.NumberInput(
            attrs={"min": 1, "max": MOST_MINUTES, "placeholder": "on request"}
        ),
    )


class LakeForm(forms.Form):
    """The fields of a new lake, which are read from a link or a POST.

    A link that chooses no table only fills the fields.
    """

    slot = SlotField(label="Slot")
    tables = forms.CharField(required=False)
    format = forms.ChoiceField(
        label="Format",
        choices=Lake.Format.choices,
        required=False,
        error_messages={"invalid_choice": "Choose Delta or Iceberg."},
        widget=forms.Select(attrs={"class": "field"}),
    )
    name = text_field("Name", help_text="Commands and alerts use it.", most=100)
    root = text_field("Folder", most=1000, css="mono", placeholder=DEFAULT_ROOT)
    every_minutes = _minutes_field()

    def __init__(
        self, slot: Slot, params: Mapping[str, Any], *, by: str, anywhere: bool, is_sent: bool
    ) -> None:
        """Read the parameters for an account, which may write ``anywhere`` or not."""
        params = {"slot": str(slot)} | dict(params)
        super().__init__(params if is_sent or params.get("tables") else None, initial=params)
        self._by, self._anywhere = by, anywhere
        self._default_name = _free_name(slot)
        self.fields["name"].widget.attrs["placeholder"] = self._default_name
        #: The lake of a valid form, which is not saved.
        self.lake: Lake | None = None
        #: The names of its tables.
        self.chosen = listed(params.get("tables", ""))

    def clean(self) -> None:
        """Build the lake, and check it by the rules of all lakes."""
        if self.errors:
            return
        data = self.cleaned_data
        lake = Lake(
            name=data["name"] or self._default_name,
            slot=data["slot"],
            format=data["format"] or Lake.Format.DELTA,
            root=data["root"] or DEFAULT_ROOT,
            every_minutes=data["every_minutes"],
            added_by=self._by,
        )
        try:
            self.chosen = check(lake, self.chosen, anywhere=self._anywhere)
        except Refused as refused:
            add_problem(self, refused)
        else:
            self.lake = lake


def _free_name(slot: Slot) -> str:
    """Return the name of the slot's source as a lake may have it, with a number if one has it."""
    taken = set(Lake._base_manager.values_list("name", flat=True))
    name = re.sub(r"[^\w.-]+", "-", slot.source.name, flags=re.ASCII).strip("-._") or "lake"
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(each for each in names if each not in taken)


class ScheduleForm(forms.Form):
    """The form that sets or ends a lake's schedule."""

    every_minutes = _minutes_field()


class RemovalForm(forms.Form):
    """The form that removes a lake, given the name that confirms it."""

    typed = text_field(css="mono", autocapitalize="off", required=True)

    def __init__(self, lake: Lake, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        self._name = lake.name

    def clean_typed(self) -> str:
        """Return the name."""
        typed: str = self.cleaned_data["typed"]
        if typed != self._name:
            raise forms.ValidationError(f"Nothing is removed: type {self._name} to confirm.")
        return typed
