"""A page's fields by their names, for templates whose parts several pages share."""

from dataclasses import fields
from typing import Any


def named_fields(page: Any) -> dict[str, object]:
    """Return the fields of a page, which is a dataclass, by name."""
    return {field.name: getattr(page, field.name) for field in fields(page)}
