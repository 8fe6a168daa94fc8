"""A list's columns are one tuple of entries, from which its header, cells and widths follow.

The templates in ``ui/columns/`` write cells of tables, and those of lists in other elements. The
widths of tables are in ``css/ui/columns.css``, those of other lists in the list's own stylesheet.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

Line = TypeVar("Line")


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Line]):
    """One column of a list, whose rows are lines of one type."""

    #: Name of the column; ``col-<key>`` is a class of its cells.
    key: str
    title: str
    #: Return a line's text, which the template escapes, or a component, which is escaped already.
    cell: Callable[[Line], str] | None = None
    #: The template of a cell with more markup, in place of ``cell``; the line is named ``line``.
    template: str = ""
    #: Kind of content, which decides the width: ``count`` has the class ``width-count``.
    width: str
    #: Further classes of the cells, but not of the header.
    look: str = ""
    #: True for numbers, which are aligned at the right.
    number: bool = False
    #: Least width in pixels of a window that shows the column: 0, 1024 or 1280.
    least_window_px: int = 0
    #: True when the column is also shown on a phone.
    phone: bool = False
    #: The field of the API's record that has the same value; empty if there is none.
    api_field: str = ""

    @cached_property
    def head_classes(self) -> str:
        """Return the classes of the column's header."""
        names = [f"col-{self.key}", f"width-{self.width}"]
        names += ["num"] if self.number else []
        names += [f"from-{self.least_window_px}"] if self.least_window_px else []
        names += ["on-phone"] if self.phone else []
        return " ".join(names)

    @cached_property
    def classes(self) -> str:
        """Return the classes of the column's cells."""
        return f"{self.head_classes} {self.look}".rstrip()
