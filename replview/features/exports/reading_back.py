"""Previews of an export's tables: their columns, deviations, and programs that read them back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from replview.features.exports.outlook import Outlook
from replview.parquet.slice_schemas import CHANGE_FIELDS, SliceColumn
from replview.parquet.slices import Slice, SliceTable
from replview.parquet.writing import layout
from replview.parquet.writing.datasets import roots_of, table_document
from replview.parquet.writing.problems import TargetProblem
from replview.parquet.writing.targets import Target
from replview.spark.reading_programs import Program, RootSchema, below
from replview.spark.snippets import snippets
from replview.store.models import Export
from replview.targets.policy import Refused, check_again, read_policy
from replview.text.formats import plural

_METADATA_SHOWN = 5
#: Beginnings of the names of types whose values are text anyway.
_TEXT_TYPES = ("text", "char", "varchar", "name", "unknown", "bpchar")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingBack:
    """The programs that read one table back, and the tables to choose from."""

    #: Names of the tables' folders.
    tables: list[str]
    #: The table that is shown.
    table: str
    programs: list[Program]


def reading_before(
    slice_: Slice, tables: Sequence[SliceTable], target: str, chosen: str = ""
) -> ReadingBack | None:
    """Return programs for a dataset that is not written yet; None without a table or a target."""
    if not tables or not target:
        return None
    folders = layout.datasets(tables)
    tables_by_name = {layout.decoded(folders[table.relation_id]): table for table in tables}
    name = chosen if chosen in tables_by_name else next(iter(tables_by_name))
    table = tables_by_name[name]
    folder = below(target, f"{layout.incarnation_folder(slice_)}/{folders[table.relation_id]}")
    return _reading_back(tables_by_name, name, [(folder, table_document(table, None))])


def _reading_back(names: Iterable[str], name: str, roots: Sequence[RootSchema]) -> ReadingBack:
    *before, last = roots
    return ReadingBack(tables=[*names], table=name, programs=snippets(*last, before=before))


def reading_after(row: Export, chosen: str = "") -> ReadingBack | None:
    """Return programs for a written dataset, by its published metadata; None without any."""
    result: Mapping[str, Any] = row.result or {}
    tables_by_name = {
        layout.decoded(str(table["dataset"]).rpartition("/")[2]): table
        for table in result.get("tables") or []
    }
    if not tables_by_name:
        return None
    name = chosen if chosen in tables_by_name else next(iter(tables_by_name))
    dataset = str(tables_by_name[name]["dataset"])
    try:
        check_again(row.target, read_policy(), anywhere=row.anywhere)
        target = Target.of(row.target)
        if target.is_local:
            written(row, dataset)
        incarnation, _, folder = dataset.rpartition("/")
        roots = [(below(row.target, p), d) for p, d in roots_of(target, incarnation, folder)]
    except (OSError, TargetProblem, ValueError, Refused):
        return None
    return _reading_back(tables_by_name, name, roots) if roots else None


def written(row: Export, path: str) -> Path:
    """Return the path of a file or folder of the export.

    Raises ``Refused`` where it may no longer be read, and ``FileNotFoundError`` for a path outside
    of the target.
    """
    check_again(row.target, read_policy(), anywhere=row.anywhere)
    file_path = Path(row.target) / path
    if not file_path.resolve().is_relative_to(Path(row.target).resolve()):
        raise FileNotFoundError(path)
    return file_path


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaColumn:
    """A column of a table, with its types on the source and in Parquet."""

    name: str
    pg_type: str
    parquet: str
    #: The deviation from the source's value; empty: none.
    note: str = ""
    #: True if the file's reader should know the note: a value may be missing or come from
    #: elsewhere.
    warns: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaTab:
    """The columns of one table."""

    name: str
    columns: list[SchemaColumn]
    versions: str

    @property
    def short(self) -> str:
        """Return the table's name without ``public.``."""
        return self.name.removeprefix("public.")

    @property
    def metadata(self) -> str:
        """Return the first columns that every file has beside the table's own."""
        return ", ".join(item.name for item in CHANGE_FIELDS[:_METADATA_SHOWN]) + " …"

    metadata_number = len(CHANGE_FIELDS)


def schema_tabs(outlook: Outlook, *, whole: bool) -> list[SchemaTab]:
    """Return one tab for each table; ``whole``: unsent values are taken from the record."""
    hint = "taken from the record where it tells" if whole else "see _not_sent"
    return [_schema_tab(table, outlook.unsent, hint) for table in outlook.tables]


def _schema_tab(table: SliceTable, unsent: Mapping[tuple[int, str], int], hint: str) -> SchemaTab:
    numbers = [str(version.number) for version in table.versions]
    columns = [
        _schema_column(table, column, unsent.get((table.relation_id, column.source_name), 0), hint)
        for column in table.columns
    ]
    versions = f"versions {_join(numbers)} merged" if numbers[1:] else f"version {''.join(numbers)}"
    return SchemaTab(name=table.name, columns=columns, versions=versions)


def _schema_column(table: SliceTable, column: SliceColumn, unsent: int, hint: str) -> SchemaColumn:
    unsent_note = f"not sent {plural(unsent, 'time')}, {hint}" if unsent else ""
    warnings = list(filter(None, (_presence_note(table, column.source_name), unsent_note)))
    notes = [*warnings, *filter(None, [column.note])]
    pg_type = column.pg_type or "unknown"
    if not notes and pa.types.is_string(column.arrow) and not pg_type.startswith(_TEXT_TYPES):
        notes.append("as the server's text")
    return SchemaColumn(name=column.name, pg_type=pg_type, parquet=parquet_words(column.arrow),
                        note="; ".join(notes), warns=bool(warnings))  # fmt: skip


def _presence_note(table: SliceTable, name: str) -> str:
    """Return a note for a column that not all versions have; empty if all do."""
    having = [v.number for v in table.versions if any(c["name"] == name for c in v.columns)]
    numbers = [version.number for version in table.versions]
    if len(having) == len(numbers):
        return ""
    if having and having[-1] != numbers[-1]:
        dropped_in = next(number for number in numbers if number > having[-1])
        return f"dropped in version {dropped_in}; null after it"
    if having and having[0] != numbers[0]:
        return f"null before version {having[0]}"
    return f"only in versions {_join(map(str, having))}"


def parquet_words(arrow: pa.DataType) -> str:
    """Return the type as text: ``decimal(12,2)``, ``timestamp[us, UTC]``, ``int64``."""
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_timestamp(arrow):
        return f"timestamp[{arrow.unit}, {arrow.tz}]" if arrow.tz else f"timestamp[{arrow.unit}]"
    if pa.types.is_list(arrow):
        return f"list<{parquet_words(arrow.value_type)}>"
    return str(arrow)


def _join(names: Iterable[str]) -> str:
    items = list(names)
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]]))
