"""Give a form the fields of a request, and problems of libraries as errors."""

from django import forms
from django.http import HttpRequest, QueryDict

from replview.text.problem import Problem
from replview.ui.sentence import sentence


def posted(request: HttpRequest) -> QueryDict | None:
    """Return the fields of a POST; None for a GET, which shows a form without errors."""
    return request.POST if request.method == "POST" else None


def error_sentence(error: Exception) -> str:
    """Return an error's text as a sentence that begins with a capital and ends with a full stop."""
    return f"{sentence(str(error)).rstrip('.')}."


def add_problem(form: forms.BaseForm, problem: Problem) -> None:
    """Add a problem as an error of the field that it names; without one, of the whole form."""
    name = problem.field if problem.field in form.fields else None
    form.add_error(name, error_sentence(problem))
