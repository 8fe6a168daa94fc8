"""Template tags that write the columns of a change's block."""

from html import escape
from typing import Any
from urllib.parse import quote

from django import template
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from replview.store.read.changes.of_transaction import SHOWN_CHARACTERS
from replview.text.addresses import row_url
from replview.ui.changes.cells import Block, Cell, ColumnLine
from replview.ui.changes.value_diff import DiffPiece, JSONLine

# The columns of a change are written in Python, because a page has thousands of them: a template
# for each took three quarters of a page's time. Every value and name is escaped; no other text
# comes from a source.

_KEY = (
    '<svg class="icon icon-14" aria-hidden="true"><use href="#i-key"/></svg>'
    '<span class="visually-hidden">key </span>'
)
_BEFORE = '<span class="diff-sign" aria-hidden="true">−</span>'
_AFTER = '<span class="diff-sign" aria-hidden="true">+</span>'
_LABEL_BEFORE = '<span class="visually-hidden">before </span>'
_LABEL_AFTER = '<span class="visually-hidden">after </span>'
_UNKNOWN = '<span class="diff-before hatched unknown">unknown</span>'
_VALUE = '<mark class="value" tabindex="0" role="button" data-copies'


register = template.Library()


@register.simple_tag
def diff_lines(block: Block, folded: bool = False) -> SafeString:
    """Return the differing columns of a block, or all those of an insert or delete.

    ``folded`` returns the columns behind the fold, which have one side.
    """
    lines, two_sided = (block.folded, False) if folded else (block.lines, block.two_sided)
    return mark_safe("".join(_line_html(block, line, two_sided) for line in lines))


def cell_html(block: Block, cell: Cell, column: str) -> str:
    """Return a value, or the words for it, with a button that shows it whole where it is cut."""
    text = escape(cell.text)
    if cell.kind == "value":
        cut = " data-cut" if cell.length else ""
        html = f"{_VALUE}{cut}>{text}{'…' if cell.length else ''}</mark>"
    elif cell.kind == "quoted":
        html = (
            '<span class="quoted" data-tip="A text: the quotes are not part of it">'
            f'<i aria-hidden="true">‘</i>{_VALUE}>{text}</mark><i aria-hidden="true">’</i></span>'
        )
    elif cell.kind == "null":
        html = '<mark class="null">null</mark>'
    else:
        html = f'<i class="marked">{text}</i>'
    if not (cell.length and block.transaction_id):
        return html
    address = reverse("transaction-value", args=[block.transaction_id, block.seq])
    query = escape(f"?side={cell.side}&column={quote(column, safe='')}")
    if cell.length > SHOWN_CHARACTERS:
        return (
            f'{html} <a class="btn btn-text" download href="{address}{query}&amp;whole=1">'
            f"download {cell.length:,} characters</a>"
        )
    return (
        f'{html} <button class="btn btn-text show-all" type="button" '
        f'data-value="{address}{query}">show all {cell.length:,}</button>'
    )


def _line_html(block: Block, line: ColumnLine, two_sided: bool) -> str:
    if two_sided and line.json:
        body = "".join(_json_line_html(json_line, line) for json_line in line.json.lines)
        return _comparison_html(
            line, f"JSON diff: {line.json.words}", f'<ol class="json-lines">{body}</ol>'
        )
    if two_sided and line.text:
        places = line.text.places
        derived = " derived" if line.before and line.before.derived else ""
        body = "".join(_piece_html(piece) for piece in line.text.pieces)
        label = f"text diff: {places:,} place{'' if places == 1 else 's'}"
        return _comparison_html(line, label, f'<p class="text-diff{derived}">{body}</p>')
    two_sided = two_sided and not line.same
    classes = "diff-line"
    classes += " stacked" if two_sided and line.stacked else ""
    classes += "" if two_sided else " one-sided"
    classes += " same" if line.same else ""
    return f'<div class="{classes}">{_name_html(line)}{_sides_html(block, line, two_sided)}</div>'


def _sides_html(block: Block, line: ColumnLine, two_sided: bool) -> str:
    after = cell_html(block, line.after, line.name) if line.after else ""
    if line.same:
        return f'<span class="diff-same">{after}</span>'
    label_before, label_after = (_LABEL_BEFORE, _LABEL_AFTER) if two_sided else ("", "")
    written = ""
    if line.before:
        classes = "diff-before" + (" derived" if line.before.derived else "")
        classes += " hatched unknown" if line.before.kind == "unknown" else ""
        sign = "" if line.before.kind == "unknown" else _BEFORE
        value = cell_html(block, line.before, line.name)
        written = f'<span class="{classes}">{sign}{label_before}{value}</span>'
    elif two_sided:
        written = _UNKNOWN
    if line.after:
        written += f'<span class="diff-after">{_AFTER}{label_after}{after}</span>'
    return written


def _name_html(line: ColumnLine) -> str:
    name, type_name = escape(line.name), escape(line.type)
    tooltip = f"{name} {type_name}".strip() + (", part of the key" if line.key else "")
    html = f'<span class="diff-name" data-tip="{tooltip}">{_KEY if line.key else ""}{name}'
    return html + (f' <span class="diff-type">{type_name}</span></span>' if line.type
                    else "</span>")  # fmt: skip


def _comparison_html(line: ColumnLine, label: str, body: str) -> str:
    """Return a comparison over the whole width, below its column's name."""
    return (
        f'<div class="diff-line diff-wide"><div class="diff-wide-head">{_name_html(line)}'
        f'<span class="diff-summary">{escape(label)}</span></div>{body}</div>'
    )


def _json_line_html(json_line: JSONLine, line: ColumnLine) -> str:
    if json_line.folded:
        return f'<li class="json-fold"><span>{escape(json_line.text)}</span></li>'
    derived = " derived" if line.before and line.before.derived else ""
    kind, label, sign = {
        "-": (f' class="line-before{derived}"', _LABEL_BEFORE, "−"),
        "+": (' class="line-after"', _LABEL_AFTER, "+"),
    }.get(json_line.sign, ("", "", ""))
    text = "".join(_piece_html(p, label=False) for p in json_line.pieces) or escape(json_line.text)
    return (
        f'<li{kind}><span class="line-no" aria-hidden="true">{json_line.old or ""}</span>'
        f'<span class="line-no" aria-hidden="true">{json_line.new or ""}</span>'
        f'<span class="diff-sign" aria-hidden="true">{sign}</span>{label}<code>{text}</code></li>'
    )


def _piece_html(piece: DiffPiece, *, label: bool = True) -> str:
    text = escape(piece.text)
    if piece.sign == "-":
        return f"<del>{'<span class=visually-hidden>before: </span>' if label else ''}{text}</del>"
    if piece.sign == "+":
        return f"<ins>{'<span class=visually-hidden>after: </span>' if label else ''}{text}</ins>"
    return f'<span class="text-fold">{text}</span>' if piece.sign == "…" else text


@register.simple_tag
def history_url(slot: Any, block: Block) -> str:
    """Return the address of the row's history; empty where its key or the slot is unknown."""
    if not slot or not block.key_values or block.op not in "IUDS":
        return ""
    change = {"row": f"{block.transaction_id}-{block.seq}"} if block.transaction_id else {}
    return row_url(slot, block.schema, block.table, block.key_values, **change)


@register.simple_tag
def message_content(block: Block) -> SafeString:
    """Return the content of a message's block."""
    assert block.content is not None
    return mark_safe(cell_html(block, block.content, "content"))
