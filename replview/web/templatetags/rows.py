"""The tag of a row's history."""

from django import template
from django.utils.safestring import SafeString, mark_safe

from replview.web.row_history_page import Line
from replview.web.row_line_html import row_line_html

register = template.Library()


@register.simple_tag
def row_line(line: Line) -> SafeString:
    """A change in its line."""
    return mark_safe(row_line_html(line))
