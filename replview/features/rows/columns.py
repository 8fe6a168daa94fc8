"""The columns of a row's history. To add a column, add an entry to ``COLUMNS``.

``format_html`` and the templates escape every value and name.
"""

from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from replview.features.rows.page import RowLine
from replview.store.read.rows import RowStep
from replview.text.formats import age_words, day_second_words
from replview.ui.columns import Column
from replview.ui.component_html import chip_html, grade_kind, op_html, time_html

_UNKNOWN = SafeString('<i class="unknown">unknown</i>')
_BASELINE = SafeString('<span class="quiet">baseline</span>')


def _step(line: RowLine) -> RowStep:
    assert line.entry is not None
    return line.entry.step


def _time(line: RowLine) -> SafeString:
    moment = _step(line).commit_time
    if moment is None:
        return _UNKNOWN
    return format_html(
        '{} <span class="ago">{}</span>',
        time_html(moment, "second", day_second_words(moment)),
        time_html(moment, "ago", f"{age_words(timezone.now() - moment)} ago"),
    )


def _actor(line: RowLine) -> SafeString:
    step = _step(line)
    if not step.actor:
        return _BASELINE if step.op == "S" else _UNKNOWN
    grade = step.actor_grade or "claimed"
    chip = chip_html(grade, grade_kind(grade))
    return format_html('<span class="cut">{}</span> {}', step.actor, chip)


def _transaction_link(line: RowLine) -> SafeString:
    step = _step(line)
    address = reverse("transaction", args=[step.transaction_id])
    if step.xid is None:
        words = "snapshot" if step.op == "S" else "transaction"
        return format_html('<a href="{}">{}</a>', address, words)
    return format_html(
        '<a class="mono" href="{}?at={}" data-tip="{}the whole transaction">{}</a>',
        address,
        step.seq,
        f"{step.gid}: " if step.gid else "",
        step.xid,
    )


COLUMNS: tuple[Column[RowLine], ...] = (
    Column(key="time", title="When", cell=_time, width="time"),
    Column(key="op", title="", cell=lambda line: op_html(_step(line).op), width="op"),
    Column(key="change", title="Change", template="rows/_change_words.html", width="rest"),
    Column(key="actor", title="Who", cell=_actor, width="actor"),
    Column(key="xid", title="xid", cell=_transaction_link, width="xid"),
    Column(
        key="version",
        title="Ver.",
        cell=lambda line: f"v{line.version}" if line.version else "",
        width="version",
    ),
)
