"""The form of the export page, which is read from a link or a POST.

The rules of the filter's parameters are in ``FIELDS``, and those of a slice and a target are in
their libraries: the form asks them, and shows what they refuse beside the field.
"""

from collections.abc import Mapping
from typing import Any

from django import forms

from replview.features.exports.summary import BEFORE_CHOICES
from replview.parquet.slices import BeforeOrigin
from replview.store.read.transactions.filter_values import OPERATIONS
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.ui.forms import SlotField, text_field

#: Choices of the operations menu; another set is added once it is chosen.
_OPERATION_CHOICES = (
    ("", "all changes"),
    ("IUD", "inserts, updates and deletes"),
    ("I", "inserts"),
    ("U", "updates"),
    ("D", "deletes"),
    ("UD", "updates and deletes"),
    ("TM", "truncates and messages"),
    ("S", "rows of baselines"),
)
_OP_NAMES = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates", "M": "messages",
             "S": "baselines"}  # fmt: skip
_NOT_UNDERSTOOD = "This is not understood: leave it out, or write it as described."


class ExportForm(forms.Form):
    """The fields of an export: a part of the filter, and what an export has besides."""

    slot = SlotField(label="Slot")
    ops = forms.CharField(
        label="Operations", required=False, widget=forms.Select(attrs={"class": "field"})
    )
    actor = text_field(
        "Actor", help_text="The exact name; ? for unknown.", most=200, placeholder="anyone"
    )
    since = text_field(
        "Committed from",
        help_text="A time, or an age like 2h.",
        most=40,
        placeholder="the beginning",
    )
    until = text_field("Committed to", help_text="Excluded.", most=40, placeholder="now")
    before = forms.ChoiceField(
        label="Rows before an update",
        choices=[(name, label) for name, label, _ in BEFORE_CHOICES],
        required=False,
        error_messages={"invalid_choice": "Choose where the rows come from."},
        widget=forms.Select(attrs={"class": "field"}),
    )
    numeric_scale = forms.IntegerField(
        label="Digits of numeric without a precision",
        help_text="Behind the point, 0 to 38.",
        required=False,
        error_messages={"invalid": "Write a number of digits from 0 to 38, or leave it out."},
        widget=forms.NumberInput(attrs={"min": 0, "max": 38, "placeholder": "as text"}),
    )
    to = text_field("Target", most=1000, css="mono")
    name = text_field(
        "Name", help_text="To continue the export later.", most=100, placeholder="none"
    )
    since_last = forms.BooleanField(required=False)

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.filter = TransactionFilter.from_words(params)
        select = self.fields["ops"].widget
        assert isinstance(select, forms.Select)
        select.choices = _operation_choices(self.filter.ops)

    @property
    def operations(self) -> str:
        """Return the chosen operations in words."""
        ops = "" if self.filter.ops == OPERATIONS else self.filter.ops
        return dict(_operation_choices(ops))[ops]

    def clean(self) -> None:
        """Refuse parameters that the filter did not understand."""
        for name in self.filter.misread:
            if name in self.fields:
                self.add_error(name, _NOT_UNDERSTOOD)

    def options(self) -> dict[str, Any]:
        """Return what the fields mean besides the filter, as arguments of a request.

        An invalid field counts as empty, so that the page can estimate the rest.
        """
        self.is_valid()
        data = self.cleaned_data
        before: BeforeOrigin | None = data.get("before") or None
        return {
            "name": data.get("name", ""),
            "since_last": data.get("since_last", False),
            "before": before,
            "numeric_scale": data.get("numeric_scale"),
        }


def _operation_choices(chosen: str) -> list[tuple[str, str]]:
    choices = list(_OPERATION_CHOICES)
    if chosen != OPERATIONS and chosen not in dict(choices):
        choices.append((chosen, ", ".join(_OP_NAMES[letter] for letter in chosen)))
    return choices
