"""The sentence that sums up the fields of the export page above its button."""

from collections.abc import Iterable, Iterator, Mapping

from replview.ui.job_pages import SummaryPart

#: Choices of rows before an update, each with its label and its words in the sentence.
BEFORE_CHOICES = (
    ("", "as the server sent them", "as the server sent them"),
    ("derived", "from the record, too (slower)", "from the record, too"),
    ("full", "whole rows from the record (slower)", "whole, from the record"),
)
_BEFORE_TEXTS = {name: text for name, _, text in BEFORE_CHOICES}


def summary_of(
    params: Mapping[str, str],
    *,
    operations: str,
    tables: str,
    conditions: Iterable[tuple[str, str]],
    target: str,
) -> list[SummaryPart]:
    """Return the sentence of an export.

    ``params`` are the page's parameters; the other arguments are text already. ``conditions`` are
    the filter's conditions that have no field, each a name and a value.
    """
    parts = [
        SummaryPart("Export", operations),
        SummaryPart(" of", tables),
        SummaryPart(" from", params.get("slot", "")),
        SummaryPart(", committed from", params.get("since", "") or "the beginning"),
        SummaryPart(" to", params.get("until", "") or "now"),
        SummaryPart(", by", _actor_text(params.get("actor", ""))),
    ]
    parts += [SummaryPart(f", {name}", value) for name, value in conditions]
    parts += _format_parts(params)
    parts.append(SummaryPart(", into", target or "a target that is not known"))
    return parts


def _actor_text(actor: str) -> str:
    return "nobody known" if actor == "?" else actor or "anyone"


def _format_parts(params: Mapping[str, str]) -> Iterator[SummaryPart]:
    """Yield the parts about the files, and what the export continues."""
    yield SummaryPart(", as", "typed Parquet")
    before = _BEFORE_TEXTS.get(params.get("before", ""), _BEFORE_TEXTS[""])
    if params.get("since_last") and not params.get("before"):
        before = "as in the last of this name"
    yield SummaryPart(" with rows before an update", before)
    if scale := params.get("numeric_scale", ""):
        yield SummaryPart(" and numeric without a precision with", f"{scale} digits")
    if name := params.get("name", ""):
        yield SummaryPart(", named", name)
        if params.get("since_last"):
            yield SummaryPart(", only", "what is new since the last of this name")
