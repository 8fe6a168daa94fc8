"""Replace an actor's name in a text, or in all texts of a JSON document."""

from typing import Any

import orjson


def renamed(value: object, name: str, new: str) -> Any:
    """Return a JSON document in which the name is replaced in every text.

    Texts that were renamed before stay as they are, even if ``new`` contains the name.
    """
    if isinstance(value, str):
        return new.join(each.replace(name, new) for each in value.split(new))
    if isinstance(value, dict):
        return {renamed(key, name, new): renamed(each, name, new) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each, name, new) for each in value]
    return value


def contains_name(text: str, name: str) -> bool:
    """Return whether a text contains the name, as it is or as JSON writes it."""
    return name in text or quoted(name) in text


def quoted(name: str) -> str:
    """Return the name as JSON writes it, without the quotes."""
    return orjson.dumps(name).decode()[1:-1]
