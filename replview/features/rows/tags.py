"""The template tag for a line of a row's history.

It is written in Python, since a page has fifty lines. Every value and name goes through ``escape``
or ``format_html``; nothing else comes from a source.
"""

from html import escape

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

from replview.features.rows.page import RowLine
from replview.features.rows.text import ChangeLine, LineColumn
from replview.store.read.rows import RowStep
from replview.text.formats import age_words, count_words, day_second_words
from replview.ui.component_html import chip_html, grade_kind, op_html, time_html

_RIGHT_ICON = '<svg class="icon icon-14" aria-hidden="true"><use href="#i-right"/></svg>'
_UNKNOWN = '<i class="unknown">unknown</i>'
_ARROW = '<span aria-hidden="true">→</span><span class="visually-hidden"> after </span> '


register = template.Library()


@register.simple_tag
def row_line(line: RowLine) -> SafeString:
    """Return a line's HTML: time, operation, change in words, actor, transaction, version."""
    assert line.entry is not None
    assert line.change is not None
    step = line.entry.step
    version = f"v{line.version}" if line.version else ""
    return mark_safe(
        f'<div class="row-grid"><span class="c-when">{_time_html(step)}</span>'
        f'<span class="c-op">{op_html(step.op)}</span>'
        f'<span class="c-change">{_open_link(line, step)}{_change_html(line.change)}</span>'
        f'<span class="c-who">{_actor_html(step)}</span>'
        f'<span class="c-xid">{_transaction_link(step)}</span>'
        f'<span class="c-version">{version}</span></div>'
    )


def _time_html(step: RowStep) -> str:
    moment = step.commit_time
    if moment is None:
        return _UNKNOWN
    age = time_html(moment, "ago", f"{age_words(timezone.now() - moment)} ago")
    time = time_html(moment, "second", day_second_words(moment))
    return f'{time} <span class="c-ago">{age}</span>'


def _open_link(line: "RowLine", step: RowStep) -> str:
    address = reverse("row-history-change", args=[step.transaction_id, step.seq])
    return (
        f'<a class="row-open" data-row href="{escape(line.open_url)}" data-open="{address}" '
        f'aria-expanded="{"true" if line.block else "false"}" aria-label="This change in full">'
        f"{_RIGHT_ICON}</a>"
    )


def _change_html(change: ChangeLine) -> str:
    html = f"{chip_html('key changed')} " if change.key_changed else ""
    if change.words:
        html += f'<span class="line-words">{escape(change.words)}</span> '
    html += ", ".join(map(_part_html, change.parts))
    if change.more:
        html += f' <span class="line-more">+{count_words(change.more)} more</span>'
    if change.unknown_why:
        html += f' <span class="line-more">before unknown: {escape(change.unknown_why)}</span>'
    return f'<span class="line-words mono">{html}</span>'


def _part_html(part: LineColumn) -> str:
    before, after = "", part.after
    if part.before is not None:
        before_html = _UNKNOWN
        if part.before.kind != "unknown":
            html = '<span class="visually-hidden">before </span>'
            before_html = f'<s class="line-before">{html}{escape(part.before.text)}</s>'
        before = f"{before_html} {_ARROW}"
    classes = "line-after" + ("" if part.before is not None else " only")
    classes += " null" if after is not None and after.kind == "null" else ""
    return (
        f'<span class="line-part"><span class="line-name">{escape(part.name)}'
        f"{' =' if part.before is None else ':'}</span> {before}"
        f'<b class="{classes}">{escape(after.text) if after is not None else ""}</b></span>'
    )


def _actor_html(step: RowStep) -> str:
    if step.actor:
        grade = step.actor_grade or "claimed"
        chip = chip_html(grade, grade_kind(grade))
        return f'<span class="cut">{escape(step.actor)}</span> {chip}'
    return '<span class="quiet">baseline</span>' if step.op == "S" else _UNKNOWN


def _transaction_link(step: RowStep) -> str:
    address = reverse("transaction", args=[step.transaction_id])
    if step.xid is None:
        return f'<a href="{address}">{"snapshot" if step.op == "S" else "transaction"}</a>'
    gid_prefix = f"{escape(step.gid)}: " if step.gid else ""
    return (
        f'<a class="mono" href="{address}?at={step.seq}" '
        f'data-tip="{gid_prefix}the whole transaction">{step.xid}</a>'
    )
