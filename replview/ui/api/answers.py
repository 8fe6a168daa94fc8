"""What went wrong, as JSON that says what to do."""

import logging
from collections.abc import Callable
from typing import Any

import psycopg
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, ValidationError

from replview.text.problem import CodedProblem, Problem
from replview.ui.params import ZERO_BYTE, is_zero_byte

logger = logging.getLogger(__name__)


class BadRequest(CodedProblem):
    """A parameter that cannot be used; ``remedy`` says how to write it."""

    code_of_all = "bad_request"
    status = 400


class Refusal(Exception):
    """This account may not do it; the text says who may."""


def add_answers(api: NinjaAPI) -> None:
    """Let every failure answer in one form: ``{"error", "remedy"}``."""

    def answer(request: HttpRequest, status: int, error: str, remedy: str = "") -> HttpResponse:
        return api.create_response(request, {"error": error, "remedy": remedy}, status=status)

    _add_failures(api, answer)

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


def _add_failures(api: NinjaAPI, answer: Callable[..., HttpResponse]) -> None:
    """The same of what is nobody's mistake: nothing of a row, and no trace, is told."""

    @api.exception_handler(DatabaseError)
    def no_store(request: HttpRequest, error: Exception) -> HttpResponse:
        if is_zero_byte(error):
            return answer(request, 400, ZERO_BYTE, "leave it out")
        if isinstance(error.__cause__, psycopg.errors.QueryCanceled):
            return answer(request, 503, "it takes longer than one answer may", "ask for less of it")
        logger.warning("%s: the store failed (%s)", request.path, type(error.__cause__).__name__)
        return answer(request, 503, "the store does not answer as it should", "try again")

    @api.exception_handler(Exception)
    def failed(request: HttpRequest, error: Exception) -> HttpResponse:
        logger.error("%s failed", request.path, exc_info=error)
        remedy = "see the web server's log, and please report it"
        return answer(request, 500, f"replview itself failed ({type(error).__name__})", remedy)
