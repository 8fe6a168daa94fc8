"""Add, schedule, run and remove lakes: the checks before, the rows, and the access record."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from django.db import IntegrityError, transaction

from replview.access.withheld import withheld
from replview.jobs import lakes
from replview.jobs.lakes import LakeBusy
from replview.store.models import Lake, LakeRelation, LakeRun, Relation, Slot
from replview.store.read.visibility import NO_RIGHT
from replview.store.write.access_record import Action, note
from replview.targets.policy import Refused, read_policy, target_of
from replview.text.formats import some_of
from replview.text.parsing import read_table_word, table_word

#: Largest number of minutes between two runs.
MOST_MINUTES = 31 * 24 * 60
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)


def refused_now() -> Refused | None:
    """Return why no lake may be added or run now; None where it may."""
    try:
        read_policy().check()
    except Refused as refused:
        return refused
    return None


def check(
    lake: Lake, tables: Iterable[str], *, anywhere: bool, base: Path | None = None
) -> list[str]:
    """Complete a new lake, and return the names of its tables as the record has them.

    The lake gets the name of its slot, and its whole root: a relative one is below ``base``, else
    below the folder of exports; ``anywhere`` permits others. Raises ``Refused`` with the field.
    """
    policy = read_policy()
    policy.check()
    assert lake.slot is not None
    lake.slot_name = str(lake.slot)
    names = _recorded_names(lake.slot, tables)
    if not _NAME.fullmatch(lake.name):
        cause = f"{lake.name} is no name of a lake"
        raise Refused(cause, "Use letters, digits, '.', '_' and '-'", "name")
    # Another account may see the lake that has the name.
    if Lake._base_manager.filter(name=lake.name).exists():
        raise _name_taken(lake)
    try:
        lake.root = target_of(lake.root, policy, anywhere=anywhere, base=base)
    except Refused as refused:
        raise Refused(refused.cause, refused.remedy, "root") from None
    _refuse_shared_tables(lake, names)
    check_minutes(lake.every_minutes)
    return names


def add(lake: Lake, tables: Iterable[str], *, anywhere: bool, base: Path | None = None) -> Lake:
    """Store a new lake that ``check`` accepts, and that nothing has fed yet. Raises ``Refused``."""
    names, slot = check(lake, tables, anywhere=anywhere, base=base), lake.slot
    assert slot is not None
    try:
        with transaction.atomic():
            # Of two lakes that are added at once, the second sees the first.
            Slot.objects.select_for_update(of=("self",), no_key=True).get(pk=slot.pk)
            _refuse_shared_tables(lake, names)
            lake.save()
            LakeRelation.objects.bulk_create(LakeRelation(lake=lake, name=name) for name in names)
    except IntegrityError:
        raise _name_taken(lake) from None
    note_act(lake, {"act": "added", "target": lake.root}, names)
    return lake


def _name_taken(lake: Lake) -> Refused:
    return Refused(f"there is a lake {lake} already", "Choose another name", "name")


def recorded_tables(slot: Slot) -> list[str]:
    """Return the names of the tables with recorded changes, without hidden ones."""
    rights = withheld(slot)
    relations = Relation.objects.filter(slot=slot).order_by("schema", "table")
    return [
        table_word(relation.schema, relation.table)
        for relation in relations
        if not rights.hides(str(relation))
    ]


def _recorded_names(slot: Slot, tables: Iterable[str]) -> list[str]:
    """Return the tables' names as the record has them. Raises ``Refused``."""
    names = list(dict.fromkeys(map(read_table_word, tables)))
    if not names:
        raise Refused("no table is chosen", "Choose the tables that the lake is to keep", "tables")
    recorded, rights = recorded_tables(slot), withheld(slot)
    for name in names:
        if rights.hides(name):
            remedy = "Ask an admin for the right, or leave it out"
            raise Refused(f"you have {NO_RIGHT} of {name}", remedy, "tables")
        if name not in recorded:
            cause = f"{slot} has recorded no change of {name}"
            raise Refused(cause, f"Recorded: {some_of(recorded, 5) or 'none yet'}", "tables")
    return names


def _refuse_shared_tables(lake: Lake, names: Iterable[str]) -> None:
    """Raise ``Refused`` if another lake writes one of the tables to the same place."""
    # Another account may see the other lake.
    same = LakeRelation._base_manager.filter(
        lake__root=lake.root, lake__slot_name=lake.slot_name, name__in=names
    )
    if other := same.select_related("lake").first():
        is_seen = Lake.objects.filter(pk=other.lake_id).exists()
        cause = (
            f"{f'lake {other.lake}' if is_seen else 'another lake'} writes {other} there already"
        )
        raise Refused(cause, "Choose another root", "root")


def check_minutes(minutes: int | None) -> None:
    """Raise ``Refused`` if a lake cannot run every so many minutes."""
    if minutes is not None and not 0 < minutes <= MOST_MINUTES:
        cause, remedy = f"{minutes} is no number of minutes", f"Write one from 1 to {MOST_MINUTES}"
        raise Refused(cause, remedy, "every_minutes")


def set_schedule(lake: Lake, minutes: int | None) -> None:
    """Run the lake every so many minutes; None: only when somebody asks. Raises ``Refused``."""
    check_minutes(minutes)
    lake.every_minutes = minutes
    lake.save(update_fields=["every_minutes"])
    note_act(lake, {"act": "scheduled", "every_minutes": minutes})


@transaction.atomic
def remove(lake: Lake, *, delete_tables: bool) -> list[str]:
    """Forget a lake; return the folders that were deleted. Raises ``Refused``, ``TargetProblem``.

    The rows of a removed lake's runs go with it.
    """
    from replview.parquet.writing.layout import encoded
    from replview.parquet.writing.targets import Target
    from replview.spark.reading_programs import below

    # A run that is requested meanwhile waits for this, and is refused.
    Lake.objects.select_for_update(of=("self",)).get(pk=lake.pk)
    if run := lakes.unended(lake):
        raise _refusal(LakeBusy(lake, run))
    deleted = []
    source, _, slot = lake.slot_name.partition("/")
    names = [relation.name for relation in lake.relations.all()]
    target = Target.of(lake.root)
    for name in names if delete_tables else ():
        folder = "/".join(map(encoded, (source, slot, name)))
        target.delete_folder(folder)
        deleted.append(below(target.url, folder))
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
