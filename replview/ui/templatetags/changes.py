"""The parts of a block of a change that its template does not write itself."""

from typing import Any

from django import template
from django.utils.safestring import SafeString, mark_safe

from replview.text.addresses import row_url
from replview.ui.changes.cells import Block
from replview.ui.changes.line_html import cell_html, lines_html

register = template.Library()


@register.simple_tag
def history_url(slot: Any, block: Block) -> str:
    """The history of a block's row; empty where its key is not known, or the slot is not told."""
    if not slot or not block.key_values or block.op not in "IUDS":
        return ""
    return row_url(slot, block.schema, block.table, block.key_values)


@register.simple_tag
def diff_lines(block: Block) -> SafeString:
    """The columns that differ, or that an insert or delete has."""
    return mark_safe(lines_html(block, block.lines, two=block.two_sided))


@register.simple_tag
def folded_lines(block: Block) -> SafeString:
    """The columns behind the fold."""
    return mark_safe(lines_html(block, block.folded, two=False))


@register.simple_tag
def message_content(block: Block) -> SafeString:
    """What a logical message carries."""
    assert block.content is not None
    return mark_safe(cell_html(block, block.content, "content"))
