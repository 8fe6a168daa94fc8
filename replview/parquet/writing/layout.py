"""Name the folders and files below an export's root; all names follow from the slice alone.

::

    <root>/<source>/<slot>-<incarnation's number>/
        <schema>.<table>/                    a dataset; its folder always has a dot
            _schema.json                     the schema that reads all its files
            commit_date=2026-11-20/
                part-<first LSN>-<last LSN>.zstd.parquet
        <schema>.<table>.2/                  its second root, from an incompatible change on
        transactions/commit_date=…/part-…
        events/commit_date=…/part-…
        _manifests/<slice>.json              one for each whole slice
        _manifests/<slice>.unfinished.json   one for each slice in progress or interrupted
        _manifest.json                       a copy of the manifest written last
        _compacting/…                        files that will replace an archive's small files
        _writing-<slice>-<run>/…             files that Spark is writing
        _SUCCESS                             nothing in this folder is half written

**Why a manifest per slice.** A slice that continues *since last* adds files to the same datasets: a
single manifest would forget the files of earlier slices. Its name begins with the slice's range of
commit_seq, so that a listing alone shows which slices can overlap. Slices that overlap would double
rows in their datasets and give different files the same name; they are refused. ``_manifest.json``
is for readers that expect a single slice.

**Why roots.** A column that became another kind of type (text → int) has no schema that reads the
files of before and after: that table continues in a folder beside the first, whose ``_schema.json``
says which root it follows and why. A table's folder has one dot, so that ``.2`` is unambiguous.

Names keep ASCII letters, digits, ``-`` and ``_``; all else is ``~`` and two hexadecimal digits a
byte: unlike ``%``, nothing that reads URLs decodes it. A folder that begins with ``_`` would be
read as hidden, so a leading one is encoded, too. ``commit_date`` is the day (UTC) of the commit; a
record without one, such as a message outside of transactions, has the day of its record.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote, unquote

import orjson

from replview.parquet.slices import LAST_SEQ, Slice, SliceRange, SliceTable
from replview.parquet.writing.filesystems import WRITING
from replview.text.parsing import whole_number

TRANSACTIONS = "transactions"
EVENTS = "events"
MANIFESTS = "_manifests"
MANIFEST = "_manifest.json"
SCHEMA = "_schema.json"
SUCCESS = "_SUCCESS"
UNFINISHED = ".unfinished.json"
#: The folder in which Hive, Spark, pandas and DuckDB look for rows without a partition value.
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
#: A folder's name may have 255 bytes; the rest is room for a suffix.
_LONGEST = 200


def encoded(name: str) -> str:
    """Encode a name as a folder's name, or as a part of one."""
    text = quote(name, safe="").replace("~", "%7E").replace(".", "%2E").replace("%", "~")
    if text.startswith("_"):
        text = f"~5F{text[1:]}"
    if len(text) > _LONGEST:
        # Only names that are hardly ASCII are so long; decoding them returns their beginning only.
        kept = re.sub(r"~.?$", "", text[: _LONGEST - 13])
        text = f"{kept}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return text


def decoded(text: str) -> str:
    """Return the name that was encoded."""
    return unquote(text.replace("~", "%"))


def incarnation_folder(part: Slice) -> str:
    """Return the folder of the slot's incarnation, relative to the root."""
    return f"{encoded(part.source)}/{encoded(part.slot)}-{part.incarnation}"


def staging_folder(part: Slice) -> str:
    """Return the beginning of the folders in which Spark writes a slice's files at first."""
    return f"{incarnation_folder(part)}/{WRITING}{slice_name(part)}"


def datasets(tables: Sequence[SliceTable]) -> dict[int, str]:
    """Return relation → its dataset's folder, relative to the incarnation's folder.

    Where names are equal, or would be on some file systems, the table's oid is appended to all but
    the name of the table seen first.
    """
    found: dict[int, str] = {}
    taken: set[str] = set()
    for table in sorted(tables, key=lambda each: each.relation_id):
        name = f"{encoded(table.schema)}.{encoded(table.table)}"
        if len(name) > _LONGEST + 40:
            name = f"{name[:_LONGEST]}-{hashlib.sha256(table.name.encode()).hexdigest()[:12]}"
        if name.casefold() in taken:
            name = f"{name}-{table.oid}"
        taken.add(name.casefold())
        found[table.relation_id] = name
    return found


def root_folder(dataset: str, number: int) -> str:
    """Return the folder of a dataset's root by its number; ``dataset`` is the first root's."""
    return dataset if number == 1 else f"{dataset}.{number}"


def root_of(folder: str) -> tuple[str, int]:
    """Return a root's dataset, and which root it is (1: the first)."""
    dataset, _, text = folder.rpartition(".")
    number = whole_number(text)
    if "." in dataset.rpartition("/")[2] and number is not None:
        return dataset, number
    return folder, 1


def roots_by_dataset(names: Iterable[str]) -> dict[str, list[str]]:
    """Return a table's first root → all its roots in order, from an incarnation's folders."""
    found: dict[str, list[str]] = {}
    for name in sorted(names, key=root_of):
        dataset, _ = root_of(name)
        if "." in dataset:
            found.setdefault(dataset, []).append(name)
    return found


def slice_digest(part: Slice) -> str:
    """Return a digest that identifies the slice; equal slices have equal digests, on any store."""
    document = part.to_json()
    # Another store of the same history has another identifier.
    del document["incarnation_id"]
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


def slice_name(part: Slice) -> str:
    """Return the slice's name: its range of commit_seq, and its digest."""
    return f"{part.after_seq:016d}-{part.through_seq:016d}-{slice_digest(part)}"


_SLICE_NAME = re.compile(r"(\d{16})-(\d{16})-[0-9a-f]{12}")


def range_of_name(name: str) -> tuple[int, int] | None:
    """Return ``(after_seq, through_seq)`` of a manifest's name; None: it is no manifest's name."""
    found = _SLICE_NAME.match(name)
    return (int(found[1]), int(found[2])) if found else None


def part_names(ranges: Iterable[SliceRange]) -> list[str]:
    """Return the paths of a dataset's parts, relative to its folder, in the order of their ranges.

    The name of a part that begins or ends within a transaction has the change's seq. A name that
    another part already has (baselines can share a position) gets the place where the part ends.
    """
    made: dict[str, None] = {}
    for within in ranges:
        first = _edge(within.first_lsn, within.after[1] if 0 < within.after[1] < LAST_SEQ else None)
        last = _edge(within.last_lsn, within.through[1] if within.through[1] < LAST_SEQ else None)
        path = f"commit_date={within.commit_date or NO_DATE}/part-{first}-{last}"
        if path in made:
            path = f"{path}-{within.through[0]}.{within.through[1]}"
        made[path] = None
    return [f"{path}.zstd.parquet" for path in made]


def _edge(lsn: int | None, seq: int | None) -> str:
    """Return an LSN as 16 hexadecimal digits; zeros where there is none (as for a message)."""
    return f"{lsn or 0:016X}" if seq is None else f"{lsn or 0:016X}.{seq}"
