"""What lists say of an export."""

from django import template

from replview.access.withheld import shown_words, withholds_text
from replview.store.models import Export, HistoryJob
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.text.formats import age_words
from replview.ui.filters import filter_text

register = template.Library()

_LEVELS = {"done": "ok", "failed": "now", "cancelled": "idle", "waiting": "idle", "running": "idle"}


@register.filter
def export_level(row: Export | HistoryJob) -> str:
    """The shape that stands for its state."""
    return _LEVELS.get(row.state, "unknown")


@register.filter
def export_what(row: Export) -> str:
    """``nightly: that touched orders, since 2026-11-19``."""
    words = filter_text(TransactionFilter.from_words(shown_words(row))) or "all tables"
    if withholds_text(row):
        words += ", narrowed by a text"
    if row.words.get("transaction"):
        words = f"transaction {row.words['transaction']}"
    return f"{row.name}: {words}" if row.name else words


@register.filter
def export_end(row: Export | HistoryJob) -> str:
    """``done, 2 s``, or what kept it."""
    if row.state == Export.State.DONE and row.started_at and row.finished_at:
        seconds = max((row.finished_at - row.started_at).total_seconds(), 1)
        return f"done, {age_words(seconds)}"
    return row.problem_cause if row.state == Export.State.FAILED else row.state


@register.filter
def history_what(row: HistoryJob) -> str:
    """``public.orders, at 0/4E91C3D8``."""
    words = row.words
    tables = ", ".join(filter(None, str(words.get("tables") or "").split(",")))
    of = words.get("table") or tables or words.get("life") or "everything"
    if moment := words.get("lsn") or words.get("time"):
        of += f", at {moment}"
    since = words.get("since") or words.get("from_lsn")
    until = words.get("until") or words.get("to_lsn")
    return of + (f", from {since}" if since else "") + (f", to {until}" if until else "")
