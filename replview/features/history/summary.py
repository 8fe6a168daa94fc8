"""The sentence that sums up the fields of the page of history jobs above its button."""

from collections.abc import Iterator, Mapping, Sequence

from replview.spark.history.commands import PERIODS
from replview.ui.job_pages import SummaryPart

#: Number of rows of a job that lists the first ones, where none is given.
DEFAULT_TOP = "20"


def summary_of(
    params: Mapping[str, str], fields: Sequence[str], *, does: str, tables: str
) -> list[SummaryPart]:
    """Return the sentence of a job.

    ``params`` are the page's parameters, ``fields`` those that the job reads; ``does`` and
    ``tables`` describe the job and its tables in words.
    """
    parts = [SummaryPart("Show", does)]
    if "table" in fields:
        parts.append(SummaryPart(", of", params.get("table", "") or "a table that is not chosen"))
    if "tables" in fields:
        parts.append(SummaryPart(", of", tables))
    parts.append(
        SummaryPart(", in the history of", params.get("incarnation", "") or "the only slot there")
    )
    if "lsn" in fields:
        parts += _moment_parts(params)
    if "since" in fields:
        parts += _span_parts(params)
    if "every" in fields:
        parts.append(SummaryPart(", by the", params.get("every", "") or PERIODS[0]))
    if "top" in fields:
        parts.append(SummaryPart(", the first", f"{params.get('top', '') or DEFAULT_TOP} rows"))
    parts.append(SummaryPart(", from the files in", params.get("root", "") or "an unknown folder"))
    return parts


def _moment_parts(params: Mapping[str, str]) -> Iterator[SummaryPart]:
    lsn, time = params.get("lsn", ""), params.get("time", "")
    if lsn:
        yield SummaryPart(", at commit LSN", lsn)
    if time or not lsn:
        yield SummaryPart(", at", time or "the end")


def _span_parts(params: Mapping[str, str]) -> Iterator[SummaryPart]:
    yield SummaryPart(", committed from", params.get("since", "") or "the beginning")
    yield SummaryPart(" to", params.get("until", "") or "the end")
    if lsn := params.get("from_lsn", ""):
        yield SummaryPart(", from LSN", lsn)
    if lsn := params.get("to_lsn", ""):
        yield SummaryPart(", to LSN", lsn)
