"""Parts that forms share: kinds of fields, and problems of libraries as errors."""

from collections.abc import Callable
from typing import Any, Self

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString

from replview.store.models import Slot, Source
from replview.text.problem import Problem
from replview.text.sizes import limit_text, parse_limit
from replview.ui.params import slot_asked_for
from replview.ui.sentence import sentence


def posted(request: HttpRequest) -> QueryDict | None:
    """Return the fields of a POST; None for a GET, which shows a form without errors."""
    return request.POST if request.method == "POST" else None


def error_sentence(error: Exception) -> str:
    """Return an error's cause, and remedy if it has one, in whole sentences."""
    text = Problem.__str__(error) if isinstance(error, Problem) else str(error)
    return f"{sentence(text).rstrip('.')}."


def add_problem(form: forms.BaseForm, problem: Problem) -> None:
    """Add a problem as an error of the field that it names; without one, of the whole form."""
    name = problem.field if problem.field in form.fields else None
    form.add_error(name, error_sentence(problem))


def text_field(
    label: str = "",
    *,
    help_text: str = "",
    most: int | None = None,
    css: str = "",
    **attributes: object,
) -> forms.CharField:
    """Return a field for a text of at most ``most`` characters, which may be empty.

    ``css`` and the other ``attributes`` are those of its input.
    """
    attributes = {"autocomplete": "off", "spellcheck": "false", **attributes}
    attributes |= {"class": css} if css else {}
    return forms.CharField(
        label=label,
        help_text=help_text,
        max_length=most,
        required=False,
        widget=forms.TextInput(attrs=attributes),
    )


def titled(title: str, text: str) -> SafeString:
    """Return the label of a choice: its title in bold, and what it means."""
    return format_html("<b>{}</b> {}", title, text)


class SizeField(forms.CharField):
    """A field for a size such as ``10GB``, or ``none``; ``parse`` refuses some of them."""

    def __init__(self, parse: Callable[[str], int | None] = parse_limit, **options: Any) -> None:
        attrs = {"class": "mono", "autocomplete": "off"}
        super().__init__(
            max_length=40,
            required=False,
            empty_value="none",
            widget=forms.TextInput(attrs=attrs),
            **options,
        )
        self.parse = parse

    def prepare_value(self, value: int | str | None) -> str:
        """Return the size as text that is read as the same size."""
        return value if isinstance(value, str) else limit_text(value)

    def clean(self, value: str | None) -> int | None:
        """Return the size in bytes; None for none. Raises ``ValidationError``."""
        try:
            return self.parse(super().clean(value))
        except ValueError as error:
            raise forms.ValidationError(error_sentence(error)) from None


class ProtectField(forms.ChoiceField):
    """A choice of what to protect when a budget is reached: the database or the record.

    The arguments say what replview does at the budget after each choice.
    """

    def __init__(self, *, database: str, record: str) -> None:
        super().__init__(
            label="At this size",
            choices=[
                (Slot.Protect.DATABASE.value, titled("Protect the database.", database)),
                (Slot.Protect.RECORD.value, titled("Protect the record.", record)),
            ],
            error_messages=dict.fromkeys(
                ("required", "invalid_choice"), "Choose what to protect at the budget."
            ),
            widget=forms.RadioSelect,
        )


class VisibleChoiceField(forms.ModelChoiceField):  # type: ignore[type-arg]
    """A choice of a row that the account may see.

    ``rows`` is called for each form, as a query that was made before does not know the account.
    """

    def __init__(self, rows: Callable[[], QuerySet[Any]], **options: Any) -> None:
        super().__init__(rows().none(), **options)
        self._rows = rows

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        field = super().__deepcopy__(memo)
        field.queryset = self._rows()
        return field


class SourceField(VisibleChoiceField):
    """A field for one of the sources, by its name, or for every source."""

    def __init__(self) -> None:
        super().__init__(
            Source.objects.all,
            label="Source",
            to_field_name="name",
            empty_label="every source",
            required=False,
            error_messages={"invalid_choice": "There is no source %(value)s."},
            widget=forms.Select(attrs={"class": "field"}),
        )


class SlotField(VisibleChoiceField):
    """A field for one of the slots, named ``source/slot``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            lambda: Slot.objects.select_related("source"),
            empty_label=None,
            error_messages=dict.fromkeys(
                ("required", "invalid_choice"), "No slot of this name is recorded. Choose one."
            ),
            widget=forms.Select(attrs={"class": "field"}),
            **options,
        )

    def prepare_value(self, value: Any) -> Any:
        """Return the name of a slot."""
        return str(value) if isinstance(value, Slot) else value

    def to_python(self, value: Any) -> Slot | None:
        """Return the slot of this name; None for no name. Raises ``ValidationError``."""
        if value in self.empty_values:
            return None
        slot = slot_asked_for(str(value))
        if slot is None:
            raise forms.ValidationError(self.error_messages["invalid_choice"])
        return slot
