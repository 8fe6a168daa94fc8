"""Find the folders and URLs whose files may hold erased values, and reach them.

pyarrow is imported only when a root is opened, to save memory in workers that erase nothing.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from replview.features.erasure.lakes import lakes_of
from replview.store.models import ArchiveMark, Erasure, Export, Slot, SlotEvent
from replview.store.retention import archive
from replview.targets.policy import read_policy

#: State of a root: ``root``, ``what``, ``files``, ``rows``, ``problem``, ``remedy``,
#: ``done``, ``left_out_by``; for a lake also ``lake``, its identifier.
RootState = dict[str, Any]


def roots_of(slot: Slot, row: Erasure, names: Collection[str]) -> dict[str, RootState]:
    """Return every folder or URL that the slot was written to, with the state of earlier tries.

    Lakes are among them if they hold a table of these names; for an actor, all lakes.
    """
    found: dict[str, RootState] = {}
    target = archive.chosen().target
    marks = ArchiveMark.objects.filter(incarnation__slot=slot).values_list("target", flat=True)
    for url in dict.fromkeys([*([target] if target else []), *marks]):
        found[url] = {"root": url, "what": "the archive" if url == target else "a former archive"}
    exports = Export.objects.filter(slot=slot).exclude(state=Export.State.WAITING).order_by("pk")
    for pk, url in exports.values_list("pk", "target"):
        found.setdefault(url, {"root": url, "what": f"export {pk}"})
    for lake in lakes_of(slot, names, actor=row.names_actor):
        url = f"{lake.root}#{lake.name}"
        found[url] = {"root": url, "what": f"lake {lake}", "lake": lake.pk}
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
