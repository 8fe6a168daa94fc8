"""The forms that request an erasure, and confirm it."""

from collections.abc import Mapping
from typing import Any

from django import forms

from replview.features.erasure.queue import (
    ErasureRequest,
    Unerasable,
    read_erasure_request,
    word_of,
)
from replview.store.models import Erasure
from replview.ui.forms import SlotField, add_problem, text_field

_LONGEST_ROWS = 400_000


class ErasureForm(forms.Form):
    """The form of a request; no error repeats a key."""

    slot = SlotField(label="Slot")
    rows = forms.CharField(
        label="Rows",
        help_text="One per line: schema.table, a space, the key. Put all rows of one person into "
        "one erasure.",
        max_length=_LONGEST_ROWS,
        required=False,
        widget=forms.Textarea(
            attrs={
                "class": "field mono erase-rows",
                "rows": 6,
                "spellcheck": "false",
                "placeholder": "public.customers 42\npublic.orders a=1, b=2",
            }
        ),
    )
    columns = text_field(
        "Columns", help_text="Empty: every value of the rows.", most=1000, css="mono"
    )
    actor = text_field(
        "Actor", help_text="The exact actor name of the person; empty: none.", most=300
    )
    why = text_field(
        "Reason", help_text="Recorded with the erasure: do not name the person.", most=1000
    )
    #: The request of a valid form.
    erasure_request: ErasureRequest

    def clean_rows(self) -> list[tuple[str, str]]:
        """Return each row as its table and key, in the text that was entered."""
        pairs = []
        for number, line in enumerate(self.cleaned_data["rows"].splitlines(), 1):
            table, _, key = line.strip().partition(" ")
            if table and not key.strip():
                raise forms.ValidationError(
                    f"Line {number} names a table and no key. Write schema.table, a space, the key."
                )
            if table:
                pairs.append((table, key.strip()))
        return pairs

    def clean_columns(self) -> list[str]:
        """Return the names."""
        names: str = self.cleaned_data["columns"]
        return names.replace(",", " ").split()

    def clean(self) -> None:
        """Read the request, which looks the tables and columns up in the record."""
        if self.errors:
            return
        data = self.cleaned_data
        try:
            self.erasure_request = read_erasure_request(
                data["slot"],
                data["rows"],
                columns=data["columns"],
                actor=data["actor"],
                reason=data["why"],
            )
        except Unerasable as problem:
            add_problem(self, problem)


class ConfirmForm(forms.Form):
    """The form that starts an erasure, given the text that confirms it."""

    typed = text_field(css="mono", autocapitalize="off", required=True)

    def __init__(self, row: Erasure, data: Mapping[str, Any] | None = None) -> None:
        self.row = row
        super().__init__(data)

    def clean_typed(self) -> str:
        """Return the text that confirms."""
        typed: str = self.cleaned_data["typed"]
        if typed != word_of(self.row):
            raise forms.ValidationError(f"Nothing is erased: type {word_of(self.row)} to confirm.")
        return typed
