"""The form field for an amount of a rule."""

from django import forms

from replview.features.alerts.amounts import AmountProblem, Unit, exact_words, parse_amount
from replview.text.parsing import clean_text

#: What a user may write, for each unit.
EXAMPLES = {
    Unit.BYTES: "like 10 GB",
    Unit.SHARE: "like 90 %",
    Unit.SECONDS: "like 30 s, 5 min, 6 h",
    Unit.YES_NO: "",
}


class AmountField(forms.CharField):
    """A form field for an amount such as ``10 GB`` or ``5 min``; empty input is None."""

    def __init__(self, unit: Unit, label: str, hint: str, *, required: bool = False) -> None:
        super().__init__(label=label, help_text=hint, required=required)
        self.unit = unit

    def prepare_value(self, value: float | str | None) -> str:
        """Return the value as text that parses back to the same value."""
        return value if isinstance(value, str) else exact_words(value, self.unit)

    def clean(self, value: str | None) -> float | None:
        """Return the amount in the field's unit. Raises ``ValidationError``."""
        text = clean_text(value, 60)
        if not text and not self.required:
            return None
        try:
            return parse_amount(text, self.unit)
        except AmountProblem as error:
            raise forms.ValidationError(str(error)) from None
