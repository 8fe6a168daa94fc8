"""Which root of its table a slice's files go to: the newest that a schema reads together with them,
else a new one.

A table begins in one folder. A column that became another kind of type, or a table made anew with
other columns, opens the next (``layout``): what reads a table reads all its roots. A slice that was
begun goes on in the root where its files stand, whichever came since.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from replview.parquet.slices import SliceTable
from replview.parquet.writing.dataset_schemas import (
    Incompatible,
    fixed_document,
    table_document,
    written,
)
from replview.parquet.writing.layout import (
    SCHEMA,
    incarnation_folder,
    root_folder,
    root_of,
    roots_by_dataset,
)
from replview.parquet.writing.manifests import Manifest
from replview.parquet.writing.parts import Part
from replview.parquet.writing.planning import Plan
from replview.parquet.writing.targets import Target


@dataclass(frozen=True, slots=True)
class Placed:
    """A plan whose files stand in the roots they go to."""

    plan: Plan
    #: Path of a ``_schema.json`` → what it will publish.
    schemas: Mapping[str, bytes]
    #: Of these those that are not there yet.
    opened: tuple[str, ...]


def place(plan: Plan, target: Target) -> Placed:
    """Choose each table's root."""
    incarnation = incarnation_folder(plan.part_of)
    roots = roots_by_dataset(target.folders(incarnation))
    folders, documents, opened = dict(plan.folders), {}, []
    for relation, table in plan.tables.items():
        first = plan.folders[relation]
        names = roots.get(first.rpartition("/")[2], [])
        there = _candidates(plan, relation, [f"{incarnation}/{name}" for name in names], target)
        folder, document = _root_for(plan, table, first, there)
        folders[relation] = folder
        documents[f"{folder}/{SCHEMA}"] = written(document)
        if folder not in there:
            opened.append(f"{folder}/{SCHEMA}")
    for one in plan.parts:
        if one.kind != "table":
            documents[f"{one.dataset}/{SCHEMA}"] = written(fixed_document(one.kind))
    parts = tuple(_moved(one, folders) for one in plan.parts)
    return Placed(replace(plan, folders=folders, parts=parts), documents, tuple(opened))


def _moved(one: Part, folders: Mapping[int, str]) -> Part:
    """Into its table's root."""
    folder = one.dataset if one.relation_id is None else folders[one.relation_id]
    path = f"{folder}{one.path.removeprefix(one.dataset)}"
    return one if folder == one.dataset else replace(one, dataset=folder, path=path)


def newly_opened(manifest: Manifest, target: Target) -> Iterator[tuple[str, str]]:
    """The roots that a slice opened: ``(folder, why)``."""
    for table in manifest.document["tables"]:
        if root_of(table["dataset"])[1] == 1:
            continue
        data = target.read_bytes(f"{table['dataset']}/{SCHEMA}")
        follows = orjson.loads(data).get("follows") if data else None
        if follows and follows["after_seq"] == manifest.document["commit_seq"]["after"]:
            yield table["dataset"], follows["because"]


def _candidates(
    plan: Plan, relation: int, there: list[str], target: Target
) -> dict[str, dict[str, Any]]:
    """Roots with what they publish: where files of this slice stand already, then newest first."""
    read = {folder: target.read_bytes(f"{folder}/{SCHEMA}") for folder in there}
    known = {folder: orjson.loads(data) for folder, data in read.items() if data}
    order = list(known)
    if len(order) > 1:
        mine = [one for one in plan.parts if one.relation_id == relation]
        names = {one.path.removeprefix(one.dataset) for one in mine}
        held = [
            folder
            for folder in order
            if any(
                each.path.removeprefix(folder) in names for each in target.files(folder, deep=True)
            )
        ]
        order.sort(key=lambda folder: (folder in held, root_of(folder)[1]), reverse=True)
    return {folder: known[folder] for folder in order}


def _root_for(
    plan: Plan, table: SliceTable, first: str, there: Mapping[str, dict[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """The root's folder, and what it will publish."""
    reasons: dict[str, str] = {}
    for folder, document in there.items():
        try:
            return folder, table_document(table, document)
        except Incompatible as error:
            reasons[folder] = error.reason
    if not there:
        return first, table_document(table, None)
    newest = max(there, key=lambda folder: root_of(folder)[1])
    follows = {
        "dataset": newest.rpartition("/")[2],
        "because": reasons[newest],
        "after_seq": plan.part_of.after_seq,
    }
    folder = root_folder(first, root_of(newest)[1] + 1)
    return folder, table_document(table, None, follows)
