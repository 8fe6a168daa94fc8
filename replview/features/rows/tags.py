"""The tag of a row's history."""

from django import template
from django.utils.safestring import SafeString, mark_safe

from replview.features.rows.line_html import row_line_html
from replview.features.rows.page import Line

register = template.Library()


@register.simple_tag
def row_line(line: Line) -> SafeString:
    """A change in its line."""
    return mark_safe(row_line_html(line))
