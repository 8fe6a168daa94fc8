"""The form of a mask rule."""

from collections.abc import Mapping
from typing import Any

from django import forms

from replview.access.mask_making import MaskProblem, unsaved_rule
from replview.store.models import MaskRule
from replview.store.read.mask_rules import LONGEST_PATTERN
from replview.ui.forms import SourceField, add_problem, text_field, titled


def _pattern_field(label: str, placeholder: str, help_text: str = "") -> forms.Field:
    return text_field(
        label, help_text=help_text, css="mono", maxlength=LONGEST_PATTERN, placeholder=placeholder
    )


class MaskForm(forms.Form):
    """The form of a new rule; it is previewed by a link before it is added."""

    source = SourceField()
    table = _pattern_field(
        "Table", "public.customers", "* matches anything; without a dot: in any schema."
    )
    column = _pattern_field("Column", "*email*")
    type = _pattern_field("Type", "json*", "As format_type() writes it; empty: any.")
    when = forms.ChoiceField(
        label="Where",
        choices=[
            (
                MaskRule.When.INGEST.value,
                titled("At ingest.", "The value is never kept, not even in the store's files."),
            ),
            (
                MaskRule.When.DISPLAY.value,
                titled("On display.", "The value is stored, but shown to nobody, not even admins."),
            ),
        ],
        required=False,
        error_messages={"invalid_choice": "Choose where the values are taken away."},
        widget=forms.RadioSelect,
    )
    note = text_field("Why", most=200)

    def __init__(self, params: Mapping[str, Any], *, by: str, is_sent: bool = False) -> None:
        """Take the parameters of a form or a link; without a pattern a link only fills the form."""
        is_sent = is_sent or any(params.get(name) for name in ("table", "column", "type"))
        params = {"when": MaskRule.When.INGEST.value} | dict(params.items())
        super().__init__(params if is_sent else None, initial=params)
        self.by = by
        #: The rule of a valid form, which is not saved.
        self.rule: MaskRule | None = None

    def clean(self) -> None:
        """Build the rule."""
        if self.errors:
            return
        data = self.cleaned_data
        try:
            self.rule = unsaved_rule(
                source=data["source"].name if data["source"] else "",
                table=data["table"],
                column=data["column"],
                type_name=data["type"],
                when=data["when"] or MaskRule.When.INGEST,
                note=data["note"],
                by=self.by,
            )
        except MaskProblem as problem:
            add_problem(self, problem)
