"""Every request's readers see what its user may see."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from replview.store.read.visibility import Sight, use_sight


@sync_and_async_middleware
def SightMiddleware(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """After the one that tells the user."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            with use_sight(_sight_of(request)):
                response: HttpResponseBase = await get_response(request)
            return response

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        with use_sight(_sight_of(request)):
            response: HttpResponseBase = get_response(request)
        return response

    return answer


def _sight_of(request: HttpRequest) -> Sight:
    """The user is asked for late: the API knows it only once the token is read."""
    return Sight(lambda: getattr(request, "user", None))
