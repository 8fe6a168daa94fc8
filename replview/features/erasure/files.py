"""Find the files that may hold erased values, and read the keys of rows from them.

pyarrow is imported only when a root is opened, to save memory in workers that erase nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decoder.scalars import LSN
from replview.features.erasure.rows import ErasedTable, key_in
from replview.store.models import ArchiveMark, Erasure, Export, Relation, Slot, SlotEvent
from replview.store.read.row_history.trails import Key, Touch, TrailPosition, touch_of
from replview.store.retention import archive
from replview.targets.policy import read_policy

if TYPE_CHECKING:
    from replview.parquet.erasure.roots import ErasureRoot

#: State of a root: ``root``, ``what``, ``files``, ``rows``, ``problem``, ``remedy``,
#: ``done``, ``left_out_by``.
RootState = dict[str, Any]


def roots_of(slot: Slot, row: Erasure) -> dict[str, RootState]:
    """Return every folder or URL that the slot was written to, with the state of earlier tries."""
    found: dict[str, RootState] = {}
    target = archive.chosen().target
    marks = ArchiveMark.objects.filter(incarnation__slot=slot).values_list("target", flat=True)
    for url in dict.fromkeys([*([target] if target else []), *marks]):
        found[url] = {"root": url, "what": "the archive" if url == target else "a former archive"}
    exports = Export.objects.filter(slot=slot).exclude(state=Export.State.WAITING).order_by("pk")
    for pk, url in exports.values_list("pk", "target"):
        found.setdefault(url, {"root": url, "what": f"export {pk}"})
    before = {each["root"]: each for each in row.roots}
    return {url: {**state, **before.get(url, {})} for url, state in found.items()}


def homes_of(slot: Slot) -> list[tuple[str, str]]:
    """Return the pairs of source and slot name under which folders of files may exist.

    These are the current names, those in exports, and former names of the source.
    """
    slices = Export.objects.filter(slot=slot).values_list("slice", flat=True)
    named = [(str(one.get("source")), str(one.get("slot"))) for one in slices]
    renamed = SlotEvent.objects.filter(slot=slot, detail__act="rename").order_by("pk")
    formers = renamed.filter(detail__has_key="former").values_list("detail__former", flat=True)
    named += [(former, slot.name) for former in formers]
    return list(dict.fromkeys([(slot.source.name, slot.name), *named]))


def reach(state: RootState, work: Callable[[], None]) -> bool:
    """Run ``work`` on a root; store a problem of reaching it in ``state``. Return success."""
    import pyarrow as pa

    from replview.parquet.erasure.roots import is_there
    from replview.parquet.writing.problems import TargetProblem, problem_of

    url = str(state["root"])
    state |= {"problem": "", "remedy": ""}
    try:
        if is_there(url) or "://" in url:
            work()
            return True
    except (TargetProblem, OSError, pa.ArrowException) as error:
        found = problem_of(error)
        state |= {"problem": found.cause, "remedy": found.remedy}
        return False
    root = read_policy().root.resolve()
    # If the instance's root exists, a missing folder below it was deleted.
    if root.is_dir() and Path(url).resolve().is_relative_to(root):
        state |= {"files": 0, "rows": 0}
        return True
    remedy = "mount it again; if it is gone for good, leave it out"
    state |= {"problem": "the folder is not there", "remedy": remedy}
    return False


@dataclass(slots=True)
class FileTrails:
    """The keys of one table's rows, as read from the files below some roots."""

    table: ErasedTable
    roots: Sequence[tuple[RootState, "ErasureRoot"]]
    _of: dict[Key, list[Touch]] = field(default_factory=dict)
    _linked: dict[Key, set[Key]] = field(default_factory=dict)

    def touches(self, key: Key) -> list[Touch]:
        """Return the changes that begin, end or move a row under the key."""
        self.read([key])
        return self._of[key]

    def linked(self, key: Key) -> set[Key]:
        """Return keys that the same row had in versions with another key."""
        self.read([key])
        return self._linked[key]

    def read(self, keys: Sequence[Key]) -> None:
        """Read all keys that were not read yet, in one pass over the files."""
        wanted = [key for key in dict.fromkeys(keys) if key not in self._of]
        if not wanted:
            return
        for key in wanted:
            self._of[key], self._linked[key] = [], set()
        pks = list(self.table.table.relation_ids)
        oids = list(Relation.objects.filter(pk__in=pks).values_list("oid", flat=True))
        for state, root in self.roots:
            reach(state, lambda root=root: self._read_root(root, oids, wanted))  # type: ignore[misc]

    def _read_root(self, root: "ErasureRoot", oids: Sequence[int], wanted: Sequence[Key]) -> None:
        for incarnation, change in root.changes_under(oids, wanted):
            before = key_in(change.key_columns, change.old, change.new)
            after = key_in(change.key_columns, change.new, change.old)
            lsn = int(LSN.parse(change.lsn))
            place = TrailPosition(incarnation, lsn, change.seq, change.commit_lsn or 0)
            is_whole = change.old_kind == "O"
            touch = touch_of(place, change.op, before, after, is_whole=is_whole)
            for key in wanted:
                if key in (before, after):
                    self._of[key].append(touch)
                elif _has(change.old, key) or _has(change.new, key):
                    self._linked[key] |= {each for each in (before, after) if each is not None}


def _has(image: Mapping[str, Any] | None, key: Key) -> bool:
    """Return whether a row has the key's values, even if its version has another key."""
    return image is not None and all(name in image and image[name] == text for name, text in key)
