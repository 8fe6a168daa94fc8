"""Look up a page's fields by name, for templates that several pages share."""

from dataclasses import fields
from typing import Any


def named_fields(page: Any) -> dict[str, object]:
    """Return the fields of a page, which is a dataclass, by name."""
    return {field.name: getattr(page, field.name) for field in fields(page)}
