"""The form of an alert rule, for pages and for fleet files."""

from collections.abc import Mapping
from typing import Any

from django import forms

from replview.features.alerts.amount_field import AmountField
from replview.features.alerts.kinds import kind_of
from replview.store.models import AlertRule

_NAME_NEEDED = "Give it a name of at most 100 characters"
#: Maps form fields to fields of the rule with another name.
_RULE_FIELDS = {"hold": "hold_seconds", "clear": "clear_seconds"}
#: Fields of the form that come from the rule; its kind decides which the form has.
_FORM_FIELDS = (
    "name", "severity", "enabled", "threshold", "clear_threshold", "hold", "clear", "tables",
)  # fmt: skip
_SEVERITY_NEEDED = f"Choose a severity: {' or '.join(AlertRule.Severity.values)}"


class RuleForm(forms.Form):
    """The form of a rule, with the fields of its kind."""

    name = forms.CharField(
        label="Name",
        max_length=100,
        error_messages=dict.fromkeys(("required", "max_length"), _NAME_NEEDED),
    )
    severity = forms.ChoiceField(
        choices=AlertRule.Severity.choices,
        error_messages=dict.fromkeys(("required", "invalid_choice"), _SEVERITY_NEEDED),
    )
    enabled = forms.BooleanField(required=False)

    def __init__(self, rule: AlertRule, data: Mapping[str, Any] | None = None) -> None:
        self.rule, self.kind = rule, kind_of(rule)
        values = {name: getattr(rule, _RULE_FIELDS.get(name, name)) for name in _FORM_FIELDS}
        super().__init__(data, initial=values)
        self.fields |= self.kind.form_fields()

    def amounts(self) -> list[forms.BoundField]:
        """Return the fields that hold amounts."""
        return [bound_field for bound_field in self if isinstance(bound_field.field, AmountField)]

    def clean(self) -> None:
        """Refuse a clear threshold beyond the threshold, and an unknown kind of rule."""
        if not self.kind.known:
            self.add_error(None, self.kind.about)
        threshold, clear_threshold = (
            self.cleaned_data.get(name) for name in ("threshold", "clear_threshold")
        )
        if threshold is None or clear_threshold is None:
            return
        if self.kind.below and clear_threshold < threshold:
            self.add_error("clear_threshold", "At least the value at which it fires")
        elif not self.kind.below and clear_threshold > threshold:
            self.add_error("clear_threshold", "At most the value at which it fires")

    def changes(self) -> dict[str, object]:
        """Return the values as fields of the rule; an empty time is 0 seconds."""
        return {
            _RULE_FIELDS.get(name, name): 0 if value is None and name in _RULE_FIELDS else value
            for name, value in self.cleaned_data.items()
        }

    def read(self) -> bool:
        """Set the rule's fields from the form; return False if there are ``errors``."""
        if not self.is_valid():
            return False
        for name, value in self.changes().items():
            setattr(self.rule, name, value)
        return True
