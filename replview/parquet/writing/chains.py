"""Find what earlier runs left in an incarnation's folder, and continue, delete or refuse it.

A slice that was begun is continued where it is part of the wanted one (``Chain.pieces``), with the
same ends, and so with the same names and bytes; the archive and exports do the same. A slice that
is not part of the wanted one, but has some of its transactions, is deleted where its run is known
to have ended. Otherwise it is refused, since its rows would be there twice. Files that no manifest
lists are refused as well: their manifest was deleted, or the mark of their slice.
"""

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from replview.parquet.slices import Slice
from replview.parquet.writing import layout
from replview.parquet.writing.files import owner_of
from replview.parquet.writing.filesystems import WRITING, named
from replview.parquet.writing.manifests import (
    Manifest,
    is_unfinished,
    mark_unfinished,
    path_of,
    read_manifest,
    seal,
)
from replview.parquet.writing.planning import ExportPlan
from replview.parquet.writing.problems import TargetProblem
from replview.parquet.writing.targets import Target

#: True when the run that wrote the slice of this name is known to have ended before it was whole.
Abandoned = Callable[[str], bool]
#: The time in which a slice that is starting looks at the others.
_STARTING_SECONDS, _LOOK_SECONDS = 10.0, 0.1
_LSNS = re.compile(r"part-([0-9A-F]{16})[.\d]*-([0-9A-F]{16})")


@dataclass(frozen=True, slots=True)
class Chain:
    """The slices of an incarnation's folder that differ in their ends alone: begin → end."""

    whole: Mapping[int, int]
    begun: Mapping[int, int]

    @classmethod
    def of(cls, target: Target, part: Slice) -> Self:
        """Return the slices that ask the same as ``part``, by the names of their manifests."""
        ends: dict[str, dict[int, int]] = {".json": {}, layout.UNFINISHED: {}}
        for found in target.files(f"{layout.incarnation_folder(part)}/{layout.MANIFESTS}"):
            name = found.path.rpartition("/")[2]
            if (seqs := layout.range_of_name(name)) is not None:
                ending = name.removeprefix(layout.slice_name(_between(part, *seqs)))
                ends.get(ending, {})[seqs[0]] = seqs[1]
        # (Names are in order: the widest of several slices that begin at one place comes last.)
        widest, end = dict[int, int](), -1
        for after, through in ends[".json"].items():
            if through > end:
                widest[after] = end = through
        return cls(widest, ends[layout.UNFINISHED])

    def reached(self) -> int:
        """Return where the chain that begins with history ends."""
        after = 0
        while after in self.whole and after not in self.begun:
            after = self.whole[after]
        return after

    def within(self, wanted: Slice) -> list[Slice]:
        """Return the whole slices, one after the other, from the beginning of the wanted one."""
        found, after = list[Slice](), wanted.after_seq
        while after not in self.begun and after < self.whole.get(after, 0) <= wanted.through_seq:
            found.append(_between(wanted, after, self.whole[after]))
            after = self.whole[after]
        return found

    def next(self, wanted: Slice) -> Slice | None:
        """Return the whole or begun slice that begins where ``wanted`` does; None: none does."""
        after = wanted.after_seq
        through = self.begun.get(after, self.whole.get(after))
        return None if through is None else replace(wanted, through_seq=through)

    def pieces(self, wanted: Slice) -> list[Slice]:
        """Return the slices that together are the wanted one: known ones first, then the rest."""
        found: list[Slice] = []
        while not found or found[-1].through_seq < wanted.through_seq:
            rest = replace(wanted, after_seq=found[-1].through_seq) if found else wanted
            known = self.next(rest)
            fits = known is not None and rest.after_seq < known.through_seq <= rest.through_seq
            found.append(known if known is not None and fits else rest)
        return found


def _between(part: Slice, after_seq: int, through_seq: int) -> Slice:
    return replace(part, after_seq=after_seq, through_seq=through_seq)


def abandoned_by(slices: Collection[Slice]) -> Abandoned:
    """Return a test for slices of runs that have ended, and for the pieces they were written in."""

    def abandoned(name: str) -> bool:
        after, through = layout.range_of_name(name) or (0, 0)
        return any(
            each.after_seq <= after <= through <= each.through_seq
            and layout.slice_name(_between(each, after, through)) == name
            for each in slices
        )

    return abandoned


def begin(target: Target, part: Slice, abandoned: Abandoned) -> set[str]:
    """Mark the slice as unfinished, and return what ``refuse_overlap`` returns.

    The mark is there before other marks are looked for, so that of two slices that begin at the
    same time at least one sees the other. The caller deletes the mark if an error is raised.
    """
    gone = refuse_overlap(target, part, abandoned)
    if not is_unfinished(target, part):
        mark_unfinished(target, part, starting=True)
        gone = refuse_overlap(target, part, abandoned)
    mark_unfinished(target, part)
    return gone


def refuse_overlap(target: Target, part: Slice, abandoned: Abandoned) -> set[str]:
    """Return the names of abandoned slices that have some of this slice's transactions.

    A transaction's rows may be in one slice of a root only: raises ``TargetProblem`` for any other
    slice that has some of them.
    """
    mine, gone = layout.slice_name(part), set[str]()
    folder = f"{layout.incarnation_folder(part)}/{layout.MANIFESTS}"
    # A slice's mark stays until all else of it is there, so look at marks before manifests.
    for found in sorted(target.files(folder), key=lambda f: not f.path.endswith(layout.UNFINISHED)):
        name = found.path.rpartition("/")[2]
        seqs = layout.range_of_name(name)
        if seqs is None or name.startswith(mine) or not _meet(seqs, part):
            continue
        begun, own = name.endswith(layout.UNFINISHED), name.partition(".")[0]
        if own in gone or (begun and abandoned(own)):
            gone.add(own)
            continue
        other = target.read_json(found.path) or {}
        if "slice" in other and not _overlap(part, Slice.from_json(other["slice"])):
            continue
        if not (begun and mine < own and _gives_way(target, found.path)):
            raise _doubled(seqs, begun=begun)
    return gone


def _gives_way(target: Target, mark: str) -> bool:
    """Return whether another slice that is starting deletes its mark.

    Of two slices that start at the same time, the one with the later name gives way, and the other
    waits until it knows that.
    """
    until = time.monotonic() + _STARTING_SECONDS
    while (document := target.read_json(mark)) is not None:
        if not document.get("starting") or time.monotonic() > until:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _doubled(seqs: tuple[int, int], *, begun: bool) -> TargetProblem:
    """Return the problem of another slice, begun or whole, that has the same transactions."""
    half, remedy = "", "export into another folder, or only what came since"
    if begun:
        half = " not finished"
        remedy = (
            "wait until that export has ended; where nobody writes it any more, take it back, or "
            "export into another folder"
        )
    return TargetProblem(
        f"another slice{half} of the same transactions stands there, of commit_seq {seqs[0] + 1} "
        f"to {seqs[1]}: its rows would be there twice",
        remedy,
    )


def _meet(seqs: tuple[int, int], part: Slice) -> bool:
    return seqs[0] < part.through_seq and part.after_seq < seqs[1]


def _overlap(one: Slice, other: Slice) -> bool:
    """Return whether a transaction can be in both."""
    if one.actors and other.actors and not {*one.actors} & {*other.actors}:
        return False
    # The intersection goes from the latest beginning to the earliest end.
    since = max((s.since for s in (one, other) if s.since is not None), default=None)
    until = min((s.until for s in (one, other) if s.until is not None), default=None)
    first = max((s.from_lsn for s in (one, other) if s.from_lsn is not None), default=None)
    last = min((s.to_lsn for s in (one, other) if s.to_lsn is not None), default=None)
    apart = since is not None and until is not None and since >= until
    return not (apart or (first is not None and last is not None and first > last))


def make_room(
    target: Target, plan: ExportPlan, gone: set[str], abandoned: Abandoned, *, begun: bool
) -> set[str]:
    """Delete what abandoned slices left of the plan's transactions; return this slice's own files.

    Deletes the slices ``gone``, and files whose mark was deleted. ``begun``: an earlier run may
    have left files of this slice. Raises ``TargetProblem`` for files whose slice is unknown.
    """
    part = plan.part_of
    folder, mine = f"{layout.incarnation_folder(part)}/{layout.MANIFESTS}", layout.slice_name(part)
    names = [found.path.rpartition("/")[2] for found in target.files(folder)]
    told = {name.partition(".")[0] for name in names} - gone
    # A half-written file does not name its slice: while another slice is being written, it stays.
    marked = {name.partition(".")[0] for name in names if name.endswith(layout.UNFINISHED)}
    alone, left, own = not marked - gone - {mine}, set[str](), set[str]()
    # An earlier run may have left files with LSNs that the store has deleted since.
    for path in _files_meeting(target, plan, everything=bool(gone) or begun):
        owner = None if path_of_half(path) else owner_of(target, path)
        if owner == mine:
            own.add(path)
        elif (alone and path_of_half(path)) or (
            owner is not None and _is_left(owner, part, told, lambda n: n in gone or abandoned(n))
        ):
            left.add(path)
    for name in gone:
        target.delete(f"{folder}/{name}.json")
    delete_staged(target, part, gone)
    delete_files(target, part, left)
    for name in gone:
        target.delete(f"{folder}/{name}{layout.UNFINISHED}")
    return own


def _is_left(owner: str, part: Slice, told: Collection[str], abandoned: Abandoned) -> bool:
    """Return whether a file of the slice ``owner`` is in the way and to be deleted.

    Raises ``TargetProblem`` where that is unknown.
    """
    seqs = layout.range_of_name(owner)
    if owner in told or seqs is None or not _meet(seqs, part):
        return False
    if abandoned(owner):
        return True
    raise TargetProblem(
        f"files of a slice stand there that no manifest tells of, of commit_seq {seqs[0] + 1} to "
        f"{seqs[1]}: its rows would be there twice",
        f"put {owner}.json back into {layout.MANIFESTS}, take that slice back, or export into "
        "another folder",
    )


def path_of_half(path: str) -> str:
    """Return the final path of a half-written file; empty: the file is no half-written one."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{named(name)}" if name.startswith(WRITING) else ""


def _files_meeting(target: Target, plan: ExportPlan, *, everything: bool) -> Iterable[str]:
    """Yield Parquet files, also half-written: all, or those whose LSNs may be the plan's."""
    within = [one.within for one in plan.parts]
    first = min((each.first_lsn or 0 for each in within), default=0)
    last = max((each.last_lsn or 0 for each in within), default=-1)
    for found in target.files(layout.incarnation_folder(plan.part_of), deep=True):
        lsns = _LSNS.search(found.path)
        if lsns and (everything or (int(lsns[1], 16) <= last and first <= int(lsns[2], 16))):
            yield found.path


def delete_files(
    target: Target, part: Slice, paths: Collection[str], *, keep: Collection[str] = ()
) -> None:
    """Delete files of an incarnation, and their half-written copies.

    Schemas of datasets without other files are deleted, too, except of the datasets ``keep``.
    """
    datasets, others = {_dataset(path) for path in paths}, {*keep}
    if not paths:
        return
    for found in target.files(layout.incarnation_folder(part), deep=True):
        if found.path in paths or path_of_half(found.path) in paths:
            target.delete(found.path)
        elif found.path.endswith(".parquet"):
            others.add(_dataset(found.path))
    for dataset in datasets - others:
        target.delete(f"{dataset}/{layout.SCHEMA}")
    for folder in {path.rpartition("/")[0] for path in paths}:
        target.delete_empty(folder)


def delete_staged(target: Target, part: Slice, slices: Collection[str]) -> None:
    """Delete what runs of these slices, named as in ``slice_name``, staged with Spark and left."""
    incarnation = layout.incarnation_folder(part)
    for name in target.folders(incarnation, hidden=True):
        if any(name.startswith(f"{WRITING}{each}") for each in slices):
            target.delete_folder(f"{incarnation}/{name}")


def take_back(target: Target, manifest: Manifest) -> None:
    """Delete a slice that is whole."""
    delete_slice(target, manifest.slice, {each["path"] for each in manifest.files})


def delete_slice(target: Target, part: Slice, paths: Collection[str]) -> None:
    """Delete a slice with its files: its manifests first, so that no reader counts on the files."""
    folder = layout.incarnation_folder(part)
    target.delete(f"{folder}/{layout.SUCCESS}")
    last = read_manifest(target, folder)
    if last is not None and last.name == layout.slice_name(part):
        target.delete(f"{folder}/{layout.MANIFEST}")
    target.delete(path_of(part))
    delete_files(target, part, paths)
    seal(target, part, None)
    target.delete_empty(f"{folder}/{layout.MANIFESTS}")


def _dataset(path: str) -> str:
    """Return the dataset's folder of a file in one of its days."""
    return path.rpartition("/")[0].rpartition("/")[0]
