"""Template tags about coverage: what the record vouches for, and gaps."""

from dataclasses import dataclass, field
from datetime import datetime

from django import template
from django.utils.safestring import SafeString

from replview.store.read.coverage import ArchiveExtent, Coverage, Gap
from replview.store.read.table_coverage import TableCoverage
from replview.text.formats import day_second_words, plural, some_of
from replview.ui.component_html import OPERATIONS_MANY, time_html

register = template.Library()
#: Most gaps that are listed; the others are counted.
_GAPS_SHOWN = 3
_NAMES_SHOWN = 6


@register.simple_tag
def day_second(moment: datetime) -> SafeString:
    """Return ``2 Nov 09:14:02``: the day comes first, because coverage spans days."""
    return time_html(moment, "second", day_second_words(moment))


@dataclass(frozen=True, slots=True)
class CoverageWords:
    """The data of ``ui/evidence/_coverage.html``; browsers format its times."""

    coverage: Coverage
    #: ``No gap``, ``One gap``, ``4 gaps``.
    gap_words: str
    gaps: list[Gap]
    gaps_more: int
    #: Sentences about the table; ``missing`` has the serious ones.
    missing: list[str] = field(default_factory=list)
    quiet: list[str] = field(default_factory=list)

    @property
    def archived(self) -> ArchiveExtent | None:
        """Return the archive's extent where it goes back further than the store; else None."""
        archive, begins = self.coverage.archive, self.coverage.recorded_since
        if archive is None or archive.since is None or begins is None:
            return None
        return archive if archive.since < begins else None


@register.simple_tag
def coverage_words(coverage: Coverage) -> CoverageWords:
    """Return the words for a coverage of the record."""
    holes = [gap for gap in coverage.gaps if gap.is_time]
    left_out = len(coverage.gaps) - len(holes)
    gap_words = {0: "No gap", 1: "One gap"}.get(len(holes), f"{len(holes)} gaps")
    if coverage.gaps_known_since is not None:
        gap_words = f"{len(holes)} gaps and more"
    unlisted = max(0, len(holes) - _GAPS_SHOWN)
    result = CoverageWords(coverage, gap_words, holes[:_GAPS_SHOWN], unlisted)
    if left_out:
        transactions = plural(left_out, "transaction was", "transactions were")
        result.missing.append(f"{transactions} skipped by decision of a user.")
    if coverage.origin_filtered:
        origin = "Changes that came from another server are not received (origin = none)."
        result.missing.append(origin)
    if coverage.table is not None:
        _add_table(coverage.table, result)
    return result


def _add_table(table: TableCoverage, result: CoverageWords) -> None:
    name = f"{table.schema}.{table.table}"
    if table.known_since is None:
        result.quiet.append(f"What is published of {name} is unknown: not read yet.")
    elif not table.published:
        result.missing.append(f"{name} is not published.")
    else:
        if table.operations_missing:
            names = [OPERATIONS_MANY[op] for op in table.operations_missing]
            result.missing.append(f"Not published: {some_of(names, _NAMES_SHOWN)} of {name}.")
        if table.row_filter is not None:
            rows = f"Only rows of {name} that match {table.row_filter} are published."
            result.missing.append(rows)
        if columns := list(map(str, table.unpublished_columns)):
            result.missing.append(f"Columns not published: {some_of(columns, _NAMES_SHOWN)}.")
