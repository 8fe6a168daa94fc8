"""A list's columns are one tuple of entries, from which its header, cells and widths follow.

The templates in ``ui/columns/`` write the header. The widths of tables are in
``css/ui/columns.css``, those of other lists in the list's own stylesheet.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString

#: A cell in a table, in a list of other elements, and in an ARIA grid. It has classes, and braces
#: for its content.
_ELEMENTS = {
    "td": '<td class="{}">{{}}</td>',
    "span": '<span class="{}">{{}}</span>',
    "gridcell": '<span class="{}" role="gridcell">{{}}</span>',
}

Line = TypeVar("Line")


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Line]):
    """One column of a list, whose rows are lines of one type."""

    #: Name of the column; ``col-<key>`` is a class of its cells.
    key: str
    title: str
    #: Return a line's text, which is escaped later, or a component, which is escaped already.
    cell: Callable[[Line], str] | None = None
    #: The template of a cell with more markup, in place of ``cell``; the line is named ``line``.
    template: str = ""
    #: Kind of content, which decides the width: ``count`` has the class ``width-count``.
    width: str
    #: Explains the column, as a tooltip of its header.
    tip: str = ""
    #: Further classes of the cells, but not of the header.
    look: str = ""
    #: A further class of the cells and of the header.
    mark: str = ""
    #: True for numbers, which are aligned at the right.
    number: bool = False
    #: Least width in pixels of a window that shows the column: 0, 1024 or 1280.
    least_window_px: int = 0
    #: True when the column is also shown on a phone.
    phone: bool = False

    @cached_property
    def head_classes(self) -> str:
        """Return the classes of the column's header."""
        names = [f"col-{self.key}", f"width-{self.width}"]
        names += ["num"] if self.number else []
        names += [f"from-{self.least_window_px}"] if self.least_window_px else []
        names += ["on-phone"] if self.phone else []
        names += [self.mark] if self.mark else []
        return " ".join(names)

    @cached_property
    def classes(self) -> str:
        """Return the classes of the column's cells, which come from the code and need no escape."""
        return f"{self.head_classes} {self.look}".rstrip()

    @cached_property
    def elements(self) -> Mapping[str, str]:
        """Return the column's cell, with a pair of braces for its content, by kind of element."""
        return {name: element.format(self.classes) for name, element in _ELEMENTS.items()}

    def content(self, line: Line) -> str:
        """Return the content of a line's cell."""
        if self.cell is None:
            return render_to_string(self.template, {"line": line})
        return self.cell(line)


def cells_html(columns: Iterable[Column[Line]], line: Line, element: str = "td") -> SafeString:
    """Return the cells of a line: ``td``, ``span``, or ``gridcell``. Texts are escaped."""
    columns = tuple(columns)
    cells = "".join(column.elements[element] for column in columns)
    return format_html(cells, *(column.content(line) for column in columns))
