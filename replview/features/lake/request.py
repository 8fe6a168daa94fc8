"""Add, remove and run lakes: the checks before, the rows, and the access record."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from django.db import IntegrityError, transaction

from replview.jobs import lakes
from replview.jobs.lakes import LakeBusy
from replview.store.models import Lake, LakeRelation, LakeRun, Relation, Slot
from replview.store.write.access_record import Action, note
from replview.targets.policy import Refused, read_policy, target_of
from replview.text.formats import some_of
from replview.text.parsing import read_table_word, table_word

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)


def add(lake: Lake, tables: Iterable[str], *, base: Path) -> Lake:
    """Store a new lake, which nothing has fed yet. Raises ``Refused``.

    A relative root is below ``base``. Only commands add lakes, so that the root may be anywhere.
    """
    policy = read_policy()
    policy.check()
    if not _NAME.fullmatch(lake.name):
        raise Refused(f"{lake.name} is no name of a lake", "Use letters, digits, '.', '_' and '-'")
    assert lake.slot is not None
    lake.slot_name = str(lake.slot)
    lake.root = target_of(lake.root, policy, anywhere=True, base=base)
    names = _recorded_names(lake.slot, tables)
    _refuse_shared_tables(lake, names)
    try:
        with transaction.atomic():
            lake.save()
            LakeRelation.objects.bulk_create(LakeRelation(lake=lake, name=name) for name in names)
    except IntegrityError:
        raise Refused(f"there is a lake {lake} already", "Choose another name") from None
    note_act(lake, {"act": "added", "target": lake.root}, names)
    return lake


def _recorded_names(slot: Slot, tables: Iterable[str]) -> list[str]:
    """Return the tables' names as the record has them. Raises ``Refused``."""
    recorded = [
        table_word(relation.schema, relation.table)
        for relation in Relation.objects.filter(slot=slot).order_by("schema", "table")
    ]
    names = list(dict.fromkeys(map(read_table_word, tables)))
    for name in names:
        if name not in recorded:
            known = some_of(recorded, 5) or "none yet"
            raise Refused(f"{slot} has recorded no change of {name}", f"Recorded: {known}")
    return names


def _refuse_shared_tables(lake: Lake, names: Iterable[str]) -> None:
    """Raise ``Refused`` if another lake writes one of the tables to the same place."""
    same = LakeRelation.objects.filter(
        lake__root=lake.root, lake__slot_name=lake.slot_name, name__in=names
    )
    if other := same.select_related("lake").first():
        raise Refused(f"lake {other.lake} writes {other} there already", "Choose another root")


def remove(lake: Lake, *, delete_tables: bool) -> list[str]:
    """Forget a lake; return the folders that were deleted. Raises ``Refused``, ``TargetProblem``.

    The rows of a removed lake's runs go with it.
    """
    from replview.parquet.writing.layout import encoded
    from replview.parquet.writing.targets import Target

    if run := lakes.unended(lake):
        raise _refusal(LakeBusy(lake, run))
    deleted = []
    source, _, slot = lake.slot_name.partition("/")
    names = [relation.name for relation in lake.relations.all()]
    target = Target.of(lake.root)
    for name in names if delete_tables else ():
        folder = "/".join(map(encoded, (source, slot, name)))
        target.delete_folder(folder)
        deleted.append(f"{target.url}/{folder}")
    act = "removed with its tables" if delete_tables else "removed"
    note_act(lake, {"act": act, "target": lake.root}, names)
    lake.delete()
    return deleted


def request_run(
    lake: Lake, action: str, *, by: str, how: LakeRun.How, words: Mapping[str, Any] | None = None
) -> LakeRun:
    """Record a run, for a worker or the calling command to carry out.

    Raises ``Refused`` while another run of the lake has not ended.
    """
    try:
        row = lakes.request(lake, action, by=by, how=how, words=words)
    except LakeBusy as busy:
        raise _refusal(busy) from None
    note_act(lake, {"act": action, "run": row.pk, "how": str(how)},
             [relation.name for relation in lake.relations.all()])  # fmt: skip
    return row


def _refusal(busy: LakeBusy) -> Refused:
    return Refused(str(busy), "Wait until it has ended, or cancel it on the lake's page")


def note_act(lake: Lake, details: Mapping[str, Any], tables: Iterable[str] = ()) -> None:
    """Write an act on a lake to the access record."""
    note(Action.EXPORTED, subject=f"lake {lake}", tables=tables, details=dict(details),
         source_id=lake.slot.source_id if lake.slot else None)  # fmt: skip
