"""Programs that read an export back: one table's at a time, by what its dataset publishes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from replview.parquet.slices import Slice, SliceTable
from replview.parquet.writing.dataset_schemas import table_document
from replview.parquet.writing.layout import (
    SCHEMA,
    datasets,
    decoded,
    life_folder,
    root_of,
    roots_by_dataset,
)
from replview.spark.snippets import Snippet, snippets
from replview.store.models import Export
from replview.targets.policy import Refused, read_policy
from replview.targets.targets import check_again


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingBack:
    """The programs of one table, and which tables there are."""

    #: As their folders are named.
    tables: list[str]
    #: The one that is shown.
    table: str
    snippets: list[Snippet]


def reading_before(
    part: Slice, tables: Sequence[SliceTable], target: str, chosen: str = ""
) -> ReadingBack | None:
    """Of what would be written there; None where there is no table or no target."""
    if not tables or not target:
        return None
    folders = datasets(tables)
    named = {decoded(folders[table.relation_id]): table for table in tables}
    name = chosen if chosen in named else next(iter(named))
    table = named[name]
    folder = f"{target}/{life_folder(part)}/{folders[table.relation_id]}"
    programs = snippets(folder, table_document(table, None), table.table)
    return ReadingBack(tables=list(named), table=name, snippets=programs)


def reading_after(row: Export, chosen: str = "") -> ReadingBack | None:
    """Of what was written, where this machine can read it."""
    result: Mapping[str, Any] = row.result or {}
    named = {
        decoded(str(one["dataset"]).rpartition("/")[2]): one for one in result.get("tables") or []
    }
    if not named or "://" in row.target:
        return None
    name = chosen if chosen in named else next(iter(named))
    folder = Path(row.target) / str(named[name]["dataset"])
    try:
        check_again(row.target, read_policy(), anywhere=row.anywhere)
        if not folder.resolve().is_relative_to(Path(row.target).resolve()):
            return None
        document = orjson.loads((folder / SCHEMA).read_bytes())
        others = _other_roots(folder)
        before = [(str(each), orjson.loads((each / SCHEMA).read_bytes())) for each in others]
    except (OSError, ValueError, Refused):
        return None
    programs = snippets(str(folder), document, str(named[name]["table"]), before=before)
    return ReadingBack(tables=list(named), table=name, snippets=programs)


def _other_roots(folder: Path) -> list[Path]:
    """The other roots of the folder's table, in their order."""
    names = [each.name for each in folder.parent.iterdir() if each.is_dir()]
    found = roots_by_dataset(names).get(root_of(folder.name)[0], [])
    others = [folder.parent / name for name in found if name != folder.name]
    return [each for each in others if (each / SCHEMA).is_file()]
