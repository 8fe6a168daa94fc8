"""Convert rows of the archive's files to changes, with images in the server's texts.

The changes are equal to those that the store would give.
"""

import datetime as dt
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from decoder.scalars import LSN
from replview.parquet.pg_values import convert, pg_text
from replview.text.parsing import whole_number

_LETTERS = {"insert": "I", "update_postimage": "U", "delete": "D"}
_PREIMAGE = "update_preimage"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedChange:
    """One change as the archive has it; an absent column was not sent."""

    #: I, U, D, S, T or M.
    op: str
    seq: int
    lsn: str
    commit_lsn: int | None
    xid: int | None
    commit_time: dt.datetime | None
    actor: str | None
    commit_seq: int | None = None
    schema: str | None = None
    table: str | None = None
    #: The table's oid, where the change itself has it (a truncation).
    oid: int | None = None
    version: int | None = None
    #: The columns of its version, ``[{"name", "type"}]``, in the stream's order.
    columns: Sequence[Mapping[str, Any]] = ()
    key_columns: Sequence[str] = ()
    replica_identity: str | None = None
    #: K (the key) or O (the whole old row).
    old_kind: str | None = None
    old: Mapping[str, Any] | None = None
    new: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ArchivedShapes:
    """The versions of a table, from its dataset's ``_schema.json``."""

    document: Mapping[str, Any]

    @property
    def schema(self) -> str:
        """Return the schema's name as last seen."""
        return str(self.document["table"]["schema"])

    @property
    def table(self) -> str:
        """Return the table's name as last seen."""
        return str(self.document["table"]["name"])

    def version(self, number: int | None) -> Mapping[str, Any]:
        """Return a shape by its number; the newest where the number is unknown."""
        versions = self.document["versions"]
        return next((each for each in versions if each["number"] == number), versions[-1])


def file_columns(schema: pa.Schema) -> dict[str, str]:
    """Return a file's own columns: name on the source → name in the file."""
    document = orjson.loads((schema.metadata or {})[b"replview"])
    return {each["name"]: each.get("file_name", each["name"]) for each in document["columns"]}


def changes_of(table: pa.Table, shapes: ArchivedShapes) -> list[ArchivedChange]:
    """Return the changes of one file's rows."""
    return list(changes_in(table.to_pylist(maps_as_pydicts="strict"), table.schema, shapes))


def changes_in(
    rows: Iterable[Mapping[str, Any]], schema: pa.Schema, shapes: ArchivedShapes
) -> Iterator[ArchivedChange]:
    """Yield changes in the file's order; a row before an update is the update's old row."""
    names = file_columns(schema)
    kinds = {source: schema.field(name).type for source, name in names.items()}
    before: tuple[Any, dict[str, Any], bool] | None = None
    for row in rows:
        place = (row["_commit_version"], row["_xid"], row["_seq"])
        shape = shapes.version(row["_relation_version"])
        image = _image(row, names, kinds, shape["columns"])
        if row["_change_type"] == _PREIMAGE:
            before = (place, image, not row["_not_sent"])
            continue
        op, whole = _LETTERS[row["_change_type"]], shape["replica_identity"] == "FULL"
        old = image if op == "D" else None
        if op == "U" and before is not None and before[0] == place:
            _, old, whole = before
        before = None
        yield ArchivedChange(
            op="S" if op == "I" and row["_xid"] is None else op,
            seq=row["_seq"], lsn=row["_lsn"], commit_lsn=row["_commit_version"],
            xid=row["_xid"], commit_time=row["_commit_timestamp"], actor=row["_actor"],
            commit_seq=row["_commit_seq"],
            schema=shapes.schema, table=shapes.table, version=row["_relation_version"],
            columns=shape["columns"], key_columns=shape["key_columns"],
            replica_identity=shape["replica_identity"],
            old_kind=None if old is None else "O" if whole else "K", old=old,
            new=None if op == "D" else image,
        )  # fmt: skip


def _image(
    row: Mapping[str, Any], names: Mapping[str, str], kinds: Mapping[str, pa.DataType],
    columns: Iterable[Mapping[str, Any]],
) -> dict[str, object]:  # fmt: skip
    """Return column → text, None for NULL, or a mark."""
    absent, raw = set(row["_not_sent"] or ()), row["_pg_raw"] or {}
    image: dict[str, Any] = {}
    for column in columns:
        name = str(column["name"])
        if name in absent or name not in names:
            continue
        if (kept := raw.get(name)) is None:
            image[name] = pg_text(row[names[name]], kinds[name])
        else:
            image[name] = orjson.loads(kept) if kept.startswith('{"$') else kept
    return image


def event_of(row: Mapping[str, Any]) -> ArchivedChange:
    """Convert a row of ``slice_schemas.EVENTS``: a truncation or a message."""
    truncate = row["op"] == "truncate"
    words = ("cascade", "restart_identity") if truncate else (
        "prefix", "content", "content_base64", "transactional")  # fmt: skip
    return ArchivedChange(
        op="T" if truncate else "M",
        seq=row["seq"], lsn=row["lsn"], commit_lsn=row["_commit_version"], xid=row["xid"],
        commit_time=row["commit_time"], actor=row["actor"], schema=row["schema"],
        commit_seq=row["commit_seq"], table=row["table"], oid=row["relation_oid"],
        version=row["version"],
        new={word: row[word] for word in words if row[word] is not None},
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArchivedTransaction:
    """A transaction in the archive, with some of its changes."""

    #: The transaction's row of ``slice_schemas.TRANSACTIONS``.
    facts: Mapping[str, Any]
    changes: Sequence[ArchivedChange]
    #: True when there are more changes after the last of these.
    more: bool


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Some changes of a row, the newest first."""

    changes: Sequence[ArchivedChange]
    #: The cursor of older changes; None: there are none.
    older: str | None
    #: The day that the search reached before its time was over; None: it ended by itself.
    searched_back_to: dt.date | None = None


def files_of(
    manifest: Mapping[str, Any], kind: str, commit_seq: int | None = None
) -> list[Mapping[str, Any]]:
    """Return the files of one kind that may have rows of a transaction (None: of any), in order."""
    files = (file for file in manifest["files"] if file["kind"] == kind)
    return [each for each in files if commit_seq is None or may_have(each, commit_seq, commit_seq)]


def oid_of(manifest: Mapping[str, Any], file: Mapping[str, Any]) -> int | None:
    """Return the oid of a file's table; None where the file belongs to no table."""
    of = (table["oid"] for table in manifest["tables"] if table["dataset"] == file["dataset"])
    return next(of, None)


def key_filter(schema: pa.Schema, key: Mapping[str, str | None]) -> pc.Expression | None:
    """Return a filter for rows with this key; None: the file cannot have any."""
    names = file_columns(schema)
    wanted = []
    for column, text in key.items():
        if column not in names:
            return None
        field = pc.field(names[column])
        converted = convert([text], schema.field(names[column]).type)
        if converted.raw:
            # The file's type cannot hold the value, so that a filter cannot find it.
            return None
        wanted.append(field.is_null() if text is None else field == converted.array[0])
    return reduce(and_, wanted) if wanted else None


def lsn_of(text: str | None) -> int:
    """Return an LSN as a number; 0 where there is none."""
    return 0 if text is None else int(LSN.parse(text))


def day_of(file: Mapping[str, Any]) -> dt.date | None:
    """Return the day of the file's commits; None where their time is unknown."""
    day = file["commit_date"]
    return None if day is None else dt.date.fromisoformat(day)


def may_have(file: Mapping[str, Any], first: int, last: int) -> bool:
    """Return whether a file may have rows of transactions ``first`` to ``last``, both included."""
    places = file.get("commit_seq") or {"first": first, "last": last}
    return bool(places["first"] <= last and first <= places["last"])


def parse_cursor(cursor: str | None) -> tuple[int, int, int] | None:
    """Return the cursor's commit_seq to go on from, the ``tag`` of a file, and its changes given.

    None where the cursor cannot be read.
    """
    match [whole_number(part) for part in (cursor or "").split(".")]:
        case [int(bound), int(tag), int(given)]:
            return bound, tag, given
    return None


def tag(file: Mapping[str, Any]) -> int:
    """Return a number that distinguishes a file from others, as long as it exists."""
    return zlib.crc32(file["path"].encode())
