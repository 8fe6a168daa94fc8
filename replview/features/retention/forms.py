"""The forms of the store's page: its budget, and the archive."""

from collections.abc import Mapping
from typing import Any

from django import forms

from replview.store.retention import archive, size
from replview.store.retention.archived import former_target
from replview.targets.policy import Refused, read_policy, target_of, try_target
from replview.ui.forms import ProtectField, SizeField, error_sentence, text_field


class StoreBudgetForm(forms.Form):
    """The form of the store's budget, and what is protected when it is reached."""

    budget = SizeField(label="Maximum size", help_text="50GB, 1.5TB, or none")
    protect = ProtectField(
        database="Receivers continue, so that no source retains WAL; the oldest days of history "
        "are deleted.",
        record="Receivers stop; no history is deleted, and sources retain WAL.",
    )

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        self.fields["budget"].initial, self.fields["protect"].initial = size.chosen()


def _hours_field(label: str, help_text: str, most: float) -> forms.Field:
    error = f"{label}: write hours, from 0 to {most:g}."
    return forms.FloatField(
        label=label,
        help_text=help_text,
        min_value=0,
        max_value=most,
        error_messages=dict.fromkeys(("required", "invalid", "min_value", "max_value"), error),
        widget=forms.TextInput(
            attrs={"class": "mono", "inputmode": "decimal", "autocomplete": "off", "maxlength": 12}
        ),
    )


class ArchiveForm(forms.Form):
    """The form of the archive: its target, which is tested, and its times."""

    target = text_field(
        "Archive to",
        help_text="a folder on the worker's machine, or s3://bucket/folder; with the worker's "
        "credentials",
        most=1000,
        css="mono",
        required=True,
    )
    after_hours = _hours_field("Archive history older than", "hours", archive.MOST["after_hours"])
    every_hours = _hours_field(
        "Write the current day every",
        "hours; whole days are written when they are complete",
        archive.MOST["every_seconds"] / 3600,
    )

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        self.choice = archive.chosen()
        initial = {
            "target": self.choice.target or former_target(),
            "after_hours": f"{self.choice.after_hours:g}",
            "every_hours": f"{self.choice.every_seconds / 3600:.4g}",
        }
        super().__init__(data, initial=initial)

    def clean_target(self) -> str:
        """Return the target as it is stored."""
        try:
            return target_of(self.cleaned_data["target"], read_policy(), anywhere=True)
        except Refused as refused:
            raise forms.ValidationError(error_sentence(refused)) from None

    def clean(self) -> None:
        """Test a new target if all fields are valid; the current one may be unreachable now."""
        if self.errors or self.cleaned_data["target"] == self.choice.target:
            return
        try:
            try_target(self.cleaned_data["target"])
        except Refused as refused:
            self.add_error("target", error_sentence(refused))
