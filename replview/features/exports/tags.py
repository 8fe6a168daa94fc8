"""Template filters for lists of exports, history jobs and runs of lakes."""

from django import template

from replview.access.withheld import shown_words, withholds_text
from replview.store.models import Export, HistoryJob, LakeRun
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.text.formats import age_words

register = template.Library()

_LEVELS = {"done": "ok", "failed": "now", "cancelled": "idle", "waiting": "idle", "running": "idle"}


@register.filter
def export_level(row: Export | HistoryJob | LakeRun) -> str:
    """Return the level that colours the state: ``ok``, ``now``, ``idle`` or ``unknown``."""
    return _LEVELS.get(row.state, "unknown")


@register.filter
def export_what(row: Export) -> str:
    """Return a description such as ``nightly: that touched orders, since 2026-11-19``."""
    text = TransactionFilter.from_words(shown_words(row)).sentence() or "all tables"
    if withholds_text(row):
        text += ", narrowed by a text"
    if row.words.get("transaction"):
        text = f"transaction {row.words['transaction']}"
    return f"{row.name}: {text}" if row.name else text


@register.filter
def export_end(row: Export | HistoryJob | LakeRun) -> str:
    """Return the outcome, such as ``done, 2 s``, or the reason of a failure."""
    if row.state == Export.State.DONE and (took := took_words(row)):
        return f"done, {took}"
    return row.problem_cause if row.state == Export.State.FAILED else row.state


def took_words(row: Export | HistoryJob | LakeRun) -> str:
    """Return the duration, such as ``2 s``; empty: it has not ended, or never began."""
    if row.started_at is None or row.finished_at is None:
        return ""
    return age_words(max((row.finished_at - row.started_at).total_seconds(), 1))


@register.filter
def history_what(row: HistoryJob) -> str:
    """Return a description such as ``public.orders, at 0/4E91C3D8``."""
    params = row.words
    tables = ", ".join(filter(None, str(params.get("tables") or "").split(",")))
    text = params.get("table") or tables or params.get("incarnation") or "everything"
    for label, names in (("at", ("lsn", "time")), ("from", ("since", "from_lsn")),
                        ("to", ("until", "to_lsn"))):  # fmt: skip
        if value := next(filter(None, map(params.get, names)), None):
            text += f", {label} {value}"
    return text
