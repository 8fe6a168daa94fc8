"""Secrets of the environment: given as they are, or as the file that holds them.

``REPLVIEW_STORE_URL_FILE=/run/secrets/store-url`` is what container and service managers hand over.
Nothing is copied into the environment: processes we start read the file themselves.
"""

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

#: Variables that may be given as NAME_FILE.
FROM_FILES = (
    "REPLVIEW_STORE_URL",
    "REPLVIEW_REDIS_URL",
    "REPLVIEW_SECRET_KEY",
    "REPLVIEW_SECRET_KEYS_OLD",
    "REPLVIEW_OIDC_CLIENT_SECRET",
)


def is_given(name: str) -> bool:
    """Whether the variable is set, itself or as a file; an empty one is not."""
    return bool(os.environ.get(name) or os.environ.get(f"{name}_FILE"))


def secret(name: str, default: str = "") -> str:
    """The variable's value, or the text of the file it names, without a newline at the end.

    Raises ``ImproperlyConfigured`` when both are given, or the file cannot be read or is empty.
    """
    given, file = os.environ.get(name), os.environ.get(f"{name}_FILE")
    if not file:
        return given or default
    if given:
        raise ImproperlyConfigured(f"{name} and {name}_FILE are both set: unset one of them")
    try:
        text = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ImproperlyConfigured(f"{name}_FILE: {file} cannot be read: {why}") from None
    if not text:
        raise ImproperlyConfigured(f"{name}_FILE: {file} is empty")
    return text


def for_programs() -> dict[str, str]:
    """The environment for processes of ours, which run in another folder than this one."""
    names = [f"{name}_FILE" for name in FROM_FILES]
    files = {name: os.path.abspath(file) for name in names if (file := os.environ.get(name))}
    return {**os.environ, **files}


def without_given_servers() -> dict[str, str]:
    """The same for a stack that brings its own store and broker: no other one is named."""
    hidden = {f"{name}_FILE" for name in FROM_FILES}
    return {name: value for name, value in os.environ.items() if name not in hidden}
