"""Show problems of libraries as errors of a form."""

from django import forms

from replview.text.problem import Problem
from replview.ui.sentence import sentence


def error_sentence(error: Exception) -> str:
    """Return an error's text as a sentence that begins with a capital and ends with a full stop."""
    return f"{sentence(str(error)).rstrip('.')}."


def add_problem(form: forms.BaseForm, problem: Problem) -> None:
    """Add a problem as an error of the field that it names; without one, of the whole form."""
    name = problem.field if problem.field in form.fields else None
    form.add_error(name, error_sentence(problem))
