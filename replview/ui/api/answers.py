"""Answer failures of the API in JSON, with a remedy."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, ValidationError

from replview.text.problem import CodedProblem, Problem


class BadRequest(CodedProblem):
    """A parameter is invalid; ``remedy`` says how to write it."""

    code_of_all = "bad_request"
    status = 400


class Refusal(Exception):
    """The account may not do this; the text says who may."""


def add_answers(api: NinjaAPI) -> None:
    """Make every failure answer in one form: ``{"error", "remedy"}``."""

    def answer(request: HttpRequest, status: int, error: str, remedy: str = "") -> HttpResponse:
        return api.create_response(request, {"error": error, "remedy": remedy}, status=status)

    @api.exception_handler(AuthenticationError)
    def not_signed_in(request: HttpRequest, error: Any) -> HttpResponse:
        return answer(
            request,
            401,
            "no token, or one that is unknown, revoked or expired",
            "send 'Authorization: Bearer rv_…' with a token of 'replview token create NAME'",
        )

    @api.exception_handler(Refusal)
    def refused(request: HttpRequest, error: Any) -> HttpResponse:
        return answer(request, 403, str(error), "ask an admin of this replview")

    @api.exception_handler(Problem)
    def problem(request: HttpRequest, error: Any) -> HttpResponse:
        return answer(request, error.status, error.cause, error.remedy)

    @api.exception_handler(ValidationError)
    def not_valid(request: HttpRequest, error: Any) -> HttpResponse:
        first = error.errors[0] if error.errors else {}
        name = ".".join(str(part) for part in first.get("loc", ())[1:])
        return answer(request, 400, f"{name}: {first.get('msg', 'not usable')}", "see /api/v1/docs")

    @api.exception_handler(Http404)
    def not_there(request: HttpRequest, error: Any) -> HttpResponse:
        return answer(request, 404, str(error) or "there is no such thing")
