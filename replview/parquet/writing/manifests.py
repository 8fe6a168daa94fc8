"""Write and read manifests: a slice's files, its gaps, and the slices below a root.

A manifest does not say when or by whom it was written: the same slice gives the same bytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Self

import orjson

from decoder.scalars import lsn_text
from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.slices import LAST_SEQ, Slice, SliceTable
from replview.parquet.writing import layout
from replview.parquet.writing.files import FilePart, WrittenFile
from replview.parquet.writing.targets import Target
from replview.store.read.lapses import lapse_text
from replview.text.parsing import is_chosen

_SKIPPED = """
    SELECT commit_seq, commit_lsn::text FROM transaction
    WHERE incarnation_id = %s AND commit_seq > %s AND commit_seq <= %s AND state = 'skipped'
    ORDER BY commit_seq
"""
_STORED = """
    SELECT count(*) FROM transaction
    WHERE incarnation_id = %(incarnation_id)s AND commit_seq > %(after)s
      AND commit_seq <= %(through)s
"""
# commit_seq has no holes: transactions that are missing were deleted.
_HOLES = """
    SELECT before, commit_seq - 1 FROM (
        SELECT commit_seq, lag(commit_seq, 1, %(after)s) OVER (ORDER BY commit_seq) AS before
        FROM (SELECT commit_seq FROM transaction WHERE incarnation_id = %(incarnation_id)s
                AND commit_seq > %(after)s AND commit_seq <= %(through)s
              UNION ALL SELECT %(through)s + 1) AS stored
    ) AS pairs WHERE commit_seq > before + 1 ORDER BY 1
"""
# A lapse belongs to the slot: it may begin before this incarnation, or end after it, at an LSN that
# does not compare. A table that was never published before has no gap, nor have rows that went with
# a partition.
_LAPSES = """
    SELECT l.relation_oid, l.schema, l."table", l.kind, l.operations,
           l.from_lsn::text, CASE WHEN l.to_incarnation = i.number THEN l.to_lsn::text END,
           l.from_at, l.to_at
    FROM slot_incarnation i
    JOIN publication_lapse l ON l.slot_id = i.slot_id AND l.from_incarnation <= i.number
     AND (l.to_incarnation IS NULL OR l.to_incarnation >= i.number)
    WHERE i.id = %(incarnation_id)s AND l.from_at IS NOT NULL AND l.operations <> 'T'
      AND (l.to_lsn IS NULL OR l.to_incarnation > i.number OR l.to_lsn > coalesce((
               SELECT commit_lsn FROM transaction
               WHERE incarnation_id = %(incarnation_id)s AND commit_seq <= %(after)s
               ORDER BY commit_seq DESC LIMIT 1), '0/0'))
      AND (l.from_incarnation < i.number OR l.from_lsn < coalesce((
               SELECT commit_lsn FROM transaction
               WHERE incarnation_id = %(incarnation_id)s AND commit_seq <= %(through)s
               ORDER BY commit_seq DESC LIMIT 1), '0/0'))
    ORDER BY l.from_incarnation, l.from_lsn, l.id
"""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A whole slice, as in its ``_manifest.json``."""

    document: Mapping[str, Any]
    #: True if this run wrote the slice; False if it was read.
    is_new: bool = field(default=False, compare=False)

    @property
    def name(self) -> str:
        """Return the slice's name."""
        return str(self.document["name"])

    @property
    def folder(self) -> str:
        """Return the incarnation's folder, relative to the root."""
        return str(self.document["folder"])

    @property
    def slice(self) -> Slice:
        """Return the slice that the manifest describes."""
        return Slice.from_json(self.document["slice"])

    @property
    def files(self) -> list[dict[str, Any]]:
        """Return the files: ``path`` (relative to the root), ``dataset``, ``rows`` and so on."""
        return list(self.document["files"])

    @classmethod
    def of(
        cls,
        part: Slice,
        tables: Mapping[int, SliceTable],
        folders: Mapping[int, str],
        files: Sequence[tuple[FilePart, WrittenFile]],
        gaps: Sequence[Mapping[str, Any]],
    ) -> Self:
        """Make the manifest of the files that were written."""
        placed = [one.within for one, _ in files]
        first = min((w.first_lsn for w in placed if w.first_lsn is not None), default=None)
        last = max((w.last_lsn for w in placed if w.last_lsn is not None), default=None)
        days = sorted(str(w.commit_date) for w in placed if w.commit_date is not None)
        return cls({
            "format": 1,
            "name": layout.slice_name(part),
            "folder": layout.incarnation_folder(part),
            "source": part.source,
            "slot": part.slot,
            "incarnation": part.incarnation,
            "commit_seq": {"after": part.after_seq, "through": part.through_seq},
            "lsn": {"first": lsn_text(first), "last": lsn_text(last)},
            "commit_date": {"first": days[0], "last": days[-1]} if days else None,
            "slice": part.to_json(),
            **({"masked": {name: list(columns) for name, columns in part.masked}}
               if part.masked else {}),
            "transactions": _rows(files, "transactions"),
            "events": _rows(files, "events"),
            "changes": _rows(files, "table", changes=True),
            "rows": _rows(files, "table"),
            "bytes": sum(written.bytes for _, written in files),
            "gaps": [dict(gap) for gap in gaps],
            "tables": _united(_table(key, table, folders[key], files)
                              for key, table in tables.items()),
            "files": [_file(one, written) for one, written in files],
        }, is_new=True)  # fmt: skip

    @classmethod
    def together(cls, part: Slice, made: Sequence[Self]) -> Self:
        """Return the manifest of a run that wrote its slice in pieces, in their order.

        ``written`` has the ends of the pieces that were not there before.
        """
        documents = [each.document for each in made]
        ends = {name: _ends([each[name] for each in documents if each[name]])
                for name in ("lsn", "commit_date")}  # fmt: skip
        united = documents[0] if len(made) == 1 else {
            **documents[-1], **ends,
            "name": layout.slice_name(part),
            "commit_seq": {"after": part.after_seq, "through": part.through_seq},
            "slice": part.to_json(),
            **{name: sum(each[name] for each in documents) for name in _SUMMED},
            **{name: [one for each in documents for one in each[name]] for name in _LISTED},
            "tables": _united(table for document in documents for table in document["tables"]),
        }  # fmt: skip
        written = [each.document["commit_seq"] for each in made if each.is_new]
        return cls({**united, **({"written": written} if written else {})})


def _united(tables: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry per dataset, with the sums of its entries and the name of the last one."""
    found: dict[str, dict[str, Any]] = {}
    for each in tables:
        known = found.get(each["dataset"], {"versions": []})
        sums = {name: known.get(name, 0) + each.get(name, 0) for name in (*_OF_TABLE, *_ASKED)
                if name in _OF_TABLE or name in known or name in each}  # fmt: skip
        versions = sorted({*known["versions"], *each["versions"]})
        found[each["dataset"]] = {**each, "versions": versions, **sums}
    return list(found.values())


def _ends(spans: Sequence[Mapping[str, str | None]]) -> dict[str, str | None] | None:
    """Return the span from the first of several spans to the last; None: there is none."""
    first = next((each["first"] for each in spans if each["first"]), None)
    last = next((each["last"] for each in reversed(spans) if each["last"]), None)
    return {"first": first, "last": last} if spans else None


_SUMMED = ("transactions", "events", "changes", "rows", "bytes")
_LISTED = ("gaps", "files")
_OF_TABLE = ("rows", "changes", "files")
_ASKED = ("unknown", "unfit")


def _rows(
    files: Sequence[tuple[FilePart, WrittenFile]], kind: str, *, changes: bool = False
) -> int:
    return sum(w.changes if changes else w.rows for part, w in files if part.kind == kind)


def _table(
    key: int, table: SliceTable, folder: str, files: Sequence[tuple[FilePart, WrittenFile]]
) -> dict[str, Any]:
    of_it = [w for part, w in files if part.relation_id == key]
    return {
        "dataset": folder,
        "schema": table.schema,
        "table": table.table,
        "oid": table.oid,
        "versions": [version.number for version in table.versions],
        "rows": sum(w.rows for w in of_it),
        "changes": sum(w.changes for w in of_it),
        "files": len(of_it),
        **_if_any(unknown=sum(w.unknown for w in of_it), unfit=sum(w.unfit for w in of_it)),
    }


def _if_any(**counts: int) -> dict[str, int]:
    """Return the counts that are not zero (see ``WrittenFile``)."""
    return {name: count for name, count in counts.items() if count}


def _file(part: FilePart, written: WrittenFile) -> dict[str, object]:
    day, (after, seq) = part.within.commit_date, part.within.after
    document = asdict(written)
    some = _if_any(unknown=document.pop("unknown"), unfit=document.pop("unfit"))
    return {
        **document,
        **some,
        "kind": part.kind,
        "commit_date": None if day is None else str(day),
        "first_lsn": lsn_text(part.within.first_lsn),
        "last_lsn": lsn_text(part.within.last_lsn),
        # The file may begin or end within one of these transactions.
        "commit_seq": {"first": after + (seq >= LAST_SEQ), "last": part.within.through[0]},
    }


def path_of(part: Slice) -> str:
    """Return the path of a slice's own manifest, relative to the root."""
    return f"{layout.incarnation_folder(part)}/{layout.MANIFESTS}/{layout.slice_name(part)}.json"


def read_manifest(target: Target, part: Slice | str) -> Manifest | None:
    """Return a slice's manifest, or the last one of an incarnation's folder; None: none exists."""
    path = f"{part}/{layout.MANIFEST}" if isinstance(part, str) else path_of(part)
    document = target.read_json(path)
    return None if document is None else Manifest(document)


def manifests(target: Target, folder: str) -> list[str]:
    """Return the names of an incarnation's whole slices, in the order of history.

    A slice within another that asks the same was replaced by it, and is left out.
    """
    found = (each.path.rpartition("/")[2] for each in target.files(f"{folder}/{layout.MANIFESTS}"))
    whole = (name.removesuffix(".json") for name in found if not name.endswith(layout.UNFINISHED))
    ranges = {name: seqs for name in whole if (seqs := layout.range_of_name(name)) is not None}
    order = sorted(ranges, key=lambda name: (ranges[name][0], -ranges[name][1], name))
    names: list[str] = []
    read = cache(lambda name: target.read_json(f"{folder}/{layout.MANIFESTS}/{name}.json"))
    for name in order:
        wider = (read(each) for each in names if ranges[each][1] >= ranges[name][1])
        if not any(each and asks_the_same(each, name) for each in wider):
            names.append(name)
    return names


def asks_the_same(document: Mapping[str, Any], name: str) -> bool:
    """Return whether a manifest's slice differs from the slice of this name in its ends alone."""
    after, through = layout.range_of_name(name) or (0, 0)
    part = Slice.from_json(document["slice"])
    return layout.slice_name(replace(part, after_seq=after, through_seq=through)) == name


def mark_unfinished(target: Target, part: Slice, *, starting: bool = False) -> None:
    """Mark the slice as unfinished: the folder may hold files of a slice that is not whole.

    ``starting``: its run has not looked yet whether other slices have the same transactions.
    """
    document = {"slice": part.to_json(), **({"starting": True} if starting else {})}
    target.write_bytes(_unfinished(part), orjson.dumps(document))
    target.delete(f"{layout.incarnation_folder(part)}/{layout.SUCCESS}")


def is_unfinished(target: Target, part: Slice) -> bool:
    """Return whether the slice is marked as unfinished."""
    return target.size(_unfinished(part)) is not None


def own_paths(part: Slice) -> set[str]:
    """Return the paths of this slice's manifest and mark, relative to the root."""
    return {path_of(part), _unfinished(part)}


def _unfinished(part: Slice) -> str:
    return path_of(part).removesuffix(".json") + layout.UNFINISHED


def seal(target: Target, part: Slice, manifest: Manifest | None) -> None:
    """End the slice: whole with its manifest, or deleted without one.

    Writes ``_SUCCESS`` last, unless another slice is still being written.
    """
    folder = layout.incarnation_folder(part)
    if manifest is not None:
        target.write_json(path_of(part), manifest.document)
        target.write_json(f"{folder}/{layout.MANIFEST}", manifest.document)
    target.delete(_unfinished(part))
    if _all_whole(target, folder):
        target.write_bytes(f"{folder}/{layout.SUCCESS}", b"")
        # A slice that was begun in between may have deleted _SUCCESS before it was written.
        if not _all_whole(target, folder):
            target.delete(f"{folder}/{layout.SUCCESS}")


def _all_whole(target: Target, folder: str) -> bool:
    """Return whether an incarnation's folder has slices, and none of them is being written."""
    found = [each.path for each in target.files(f"{folder}/{layout.MANIFESTS}")]
    return bool(found) and not any(path.endswith(layout.UNFINISHED) for path in found)


def gaps_of(connection: StoreConnection, part: Slice) -> list[dict[str, Any]]:
    """Return all gaps, each kind in the order of history.

    ``deleted``: transactions deleted before the export; ``skipped``: by decision; ``unpublished``:
    periods in which changes of a table may not have been published.
    """
    ends = (part.incarnation_id, part.after_seq, part.through_seq)
    found: list[dict[str, Any]] = [
        {"kind": "skipped", "commit_seq": seq, "commit_lsn": lsn}
        for seq, lsn in connection.execute(_SKIPPED, ends)
    ]
    holes = deleted(connection, part)
    deletions = [{"kind": "deleted", "after_seq": a, "through_seq": b} for a, b in holes]
    return [*deletions, *found, *_lapses(connection, part)]


def _lapses(connection: StoreConnection, part: Slice) -> Iterator[dict[str, Any]]:
    """Yield the lapses of publication of the slice's tables that overlap the slice."""
    ends = {"incarnation_id": part.incarnation_id, "after": part.after_seq,
            "through": part.through_seq}  # fmt: skip
    for oid, schema, table, kind, operations, from_lsn, to_lsn, since, until in connection.execute(
        _LAPSES, ends
    ):
        name = f"{schema}.{table}"
        if not part.tables or is_chosen(part.tables, schema, table):
            yield {
                "kind": "unpublished", "table": name, "oid": oid, "operations": operations,
                "from_lsn": from_lsn, "to_lsn": to_lsn,
                "why": f"{name} was {lapse_text(kind, operations, since, until)}",
            }  # fmt: skip


def deleted(connection: StoreConnection, part: Slice) -> list[tuple[int, int]]:
    """Return ``after < commit_seq <= through`` of transactions that the store has deleted.

    The ranges are in order. One count suffices where nothing is missing.
    """
    ends = {"incarnation_id": part.incarnation_id, "after": part.after_seq,
            "through": part.through_seq}  # fmt: skip
    [stored] = connection.execute(_STORED, ends).fetchone() or (0,)
    if stored == part.through_seq - part.after_seq:
        return []
    return connection.execute(_HOLES, ends).fetchall()
