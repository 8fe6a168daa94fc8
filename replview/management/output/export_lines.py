"""What ``replview export`` says: how far it is, how it ended, what was taken out before."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from replview.features.exports.outlook import Outlook
from replview.management.output.instance import table_of
from replview.store.models import Export
from replview.text.formats import age_words, bytes_words, count_words, plural

#: Between two lines where there is no terminal.
_LINE_SECONDS = 2.0


def progress_line(
    stream: Any, total: int | None, *, always: bool
) -> Callable[[Mapping[str, Any]], None]:
    """Shows each step: in one line that is written anew at a terminal, else (``always``) now and
    then in one more.
    """
    terminal = sys.stderr.isatty()
    shown = 0.0

    def show(progress: Mapping[str, Any]) -> None:
        nonlocal shown
        if not (terminal or always):
            return
        now = time.monotonic()
        if not terminal and now - shown < _LINE_SECONDS:
            return
        shown = now
        words = _progress_words(progress, total)
        if terminal:
            stream.write(f"\r\x1b[K{words}", ending="")
            stream.flush()
        else:
            stream.write(words)

    return show


def _progress_words(progress: Mapping[str, Any], total: int | None) -> str:
    rows, left = progress.get("rows"), progress.get("seconds_left")
    if rows is None:
        return "beginning"
    of = progress.get("total_rows") or total
    words = f"{count_words(rows)} rows" + (f" of {count_words(of)}" if of else "")
    words += f", {plural(progress.get('files') or 0, 'file')}"
    if progress.get("bytes"):
        words += f", {bytes_words(progress['bytes'])}"
    return words + (f", about {age_words(float(left))} left" if left is not None else "")


def estimate_lines(outlook: Outlook) -> list[str]:
    """What it would take."""
    told = outlook.estimate
    where = "on Spark" if told.spark else "without a JVM"
    seconds = age_words(max(told.seconds, 1.0))
    if not told.transactions:
        nearest = "" if outlook.nearest is None else f"; the nearest change: {outlook.nearest}"
        return [f"an empty slice{nearest}"]
    lines = [f"{count_words(told.rows)} rows of {count_words(told.transactions)} transactions, "
             f"about {bytes_words(told.bytes)} and {seconds}, written {where}",
             f"LSNs {outlook.first_lsn} to {outlook.last_lsn}"]  # fmt: skip
    return lines + [f"  {one.name}: {count_words(one.rows)}" for one in outlook.datasets]


def ended_lines(row: Export) -> list[str]:
    """What one that is done has written."""
    size = "" if row.size_bytes is None else f", {bytes_words(row.size_bytes)}"
    rows = "unknown" if row.rows is None else count_words(row.rows)
    return [f"export {row.pk}: {rows} rows in {plural(row.files or 0, 'file')}{size}",
            f"in {row.target}"]  # fmt: skip


def listed(rows: Iterable[Export]) -> str:
    """A table of exports, the newest first."""
    lines = [
        [
            str(row.pk),
            f"{row.requested_at:%Y-%m-%d %H:%M}",
            row.requested_by,
            row.slot_name,
            row.name,
            row.state,
            "" if row.rows is None else count_words(row.rows),
            row.target,
            row.problem_cause,
        ]
        for row in rows
    ]
    if not lines:
        return "nothing was taken out yet: replview export --slot SOURCE/NAME --to FOLDER"
    head = ["ID", "ASKED (UTC)", "BY", "SLOT", "NAME", "STATE", "ROWS", "TO", "PROBLEM"]
    return table_of([head, *lines])
