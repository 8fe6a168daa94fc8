"""The form of a slot's retention."""

from django import forms
from django.http import QueryDict

from replview.store.retention.policy import Keeping, check
from replview.text.sizes import limit_text, parse_limit
from replview.ui.forms import SizeField, error_sentence, text_field
from replview.ui.retention_text import days_typed, parse_keep_for


def _parse_keep_at_most(text: str) -> int | None:
    size_bytes = parse_limit(text)
    check(Keeping(for_days=None, at_most_bytes=size_bytes))
    return size_bytes


class KeepingForm(forms.Form):
    """The form of a slot's retention, and the slot's name that confirms a deletion."""

    keep_for = text_field("For", help_text="30d, 12w, or none: for ever", most=40, css="mono")
    keep_at_most = SizeField(
        _parse_keep_at_most,
        label="At most",
        help_text="50GB, 1.5TB, or none; in the store (estimate)",
    )
    typed = text_field(most=63, css="mono")

    def __init__(self, current: Keeping, params: QueryDict) -> None:
        """Take the parameters of a link or a form; one that is missing stays as it is."""
        shown = {
            "keep_for": days_typed(current.for_days),
            "keep_at_most": limit_text(current.at_most_bytes),
        }
        is_sent = bool(shown.keys() & params.keys())
        super().__init__(shown | params.dict() if is_sent else None, initial=shown)
        self.fields["keep_at_most"].initial = current.at_most_bytes

    def clean_keep_for(self) -> int | None:
        """Return the days; None: for ever."""
        try:
            days = parse_keep_for(self.cleaned_data["keep_for"])
            check(Keeping(for_days=days, at_most_bytes=None))
        except ValueError as error:
            raise forms.ValidationError(error_sentence(error)) from None
        return days

    def keeping(self) -> Keeping:
        """Return the retention of a valid form."""
        return Keeping(self.cleaned_data["keep_for"], self.cleaned_data["keep_at_most"])
