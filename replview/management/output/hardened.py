"""What ``replview up`` refuses to run with: a key that anybody knows, a debugger for strangers."""

import ipaddress

from django.conf import settings

from replview.runtime.problems import StackProblem

#: Django's own measure of a key that cannot be guessed.
_LEAST_CHARACTERS, _LEAST_DIFFERENT = 32, 5
#: Beginnings of keys that stand in documents and templates.
_PLACEHOLDERS = ("not-for-production", "django-insecure", "change", "a long random text", "secret")


def check_hardened(host: str) -> None:
    """Raise ``StackProblem`` with a remedy unless these settings may face others."""
    key = settings.SECRET_KEY
    if key.lower().startswith(_PLACEHOLDERS):
        raise StackProblem("REPLVIEW_SECRET_KEY is a placeholder", _MAKE_ONE)
    if len(key) < _LEAST_CHARACTERS or len(set(key)) < _LEAST_DIFFERENT:
        raise StackProblem(
            f"REPLVIEW_SECRET_KEY is shorter than {_LEAST_CHARACTERS} characters, or the same few "
            "over and over",
            _MAKE_ONE,
        )
    if settings.DEBUG and not is_loopback(host):
        raise StackProblem(
            f"REPLVIEW_DEBUG=1 shows settings and code to whoever comes, and {host} is open to "
            "other machines",
            "Unset REPLVIEW_DEBUG, or listen on 127.0.0.1",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can come to it."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


_MAKE_ONE = "Make one: python3 -c 'import secrets; print(secrets.token_urlsafe(50))'"
