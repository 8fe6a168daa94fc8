"""Where exported slices are known to be, and what is there: lives of slots, and their tables."""

import threading
from dataclasses import dataclass

import pyarrow as pa

from replview.access.visibility import current_visibility
from replview.access.withheld import slot_of_life, withheld
from replview.parquet.writing.layout import decoded
from replview.parquet.writing.problems import TargetProblem
from replview.parquet.writing.targets import Target
from replview.spark.history.datasets import Life
from replview.store.models import Export
from replview.store.retention import archive
from replview.targets.policy import Policy, Refused, target_of

#: What a page may spend on listing folders of an object store.
_PATIENCE_SECONDS = 5.0
_MOST = 200


@dataclass(frozen=True, slots=True)
class Root:
    """A folder or URL that slices were written to."""

    url: str
    #: ``the archive``, ``export 12``.
    what: str


@dataclass(frozen=True, slots=True)
class LifeThere:
    """One life of a slot below a root: ``source/slot-number``, and its tables."""

    name: str
    tables: tuple[str, ...]


def known_roots() -> list[Root]:
    """The archive, and every folder that an export has filled: the newest first."""
    found: dict[str, Root] = {}
    if (target := archive.chosen().target) is not None:
        found[target] = Root(target, "the archive")
    done = Export.objects.filter(state=Export.State.DONE).exclude(target__contains="://")
    for pk, url in done.values_list("pk", "target")[:_MOST]:
        found.setdefault(url, Root(url, f"export {pk}"))
    return list(found.values())


def root_of(text: str, policy: Policy, *, anywhere: bool) -> str:
    """A known root, or one that whoever asks could export to. Raises ``Refused``."""
    if text in {root.url for root in known_roots()}:
        return text
    return target_of(text, policy, anywhere=anywhere)


def lives_there(root: str) -> list[LifeThere]:
    """What was exported there. Raises ``Refused``."""
    found: list[list[LifeThere] | Refused] = []
    read = threading.Thread(target=lambda: found.append(_read(root)), daemon=True, name="root")
    read.start()
    read.join(_PATIENCE_SECONDS)
    if not found:
        raise Refused(
            f"listing what is there takes longer than {_PATIENCE_SECONDS:.0f} s",
            "Write the incarnation and the table yourself",
        )
    if isinstance(found[0], Refused):
        raise found[0]
    if not current_visibility().restricted:
        return found[0]
    # Of a slot that is not there for whoever asks nothing is told, nor of a hidden table.
    slots = {life.name: slot_of_life(life.name) for life in found[0]}
    hidden = {name: withheld(slot) for name, slot in slots.items() if slot is not None}
    return [
        LifeThere(life.name, tuple(t for t in life.tables if not hidden[life.name].hides(t)))
        for life in found[0]
        if life.name in hidden
    ]


def _read(root: str) -> list[LifeThere] | Refused:
    try:
        return [
            LifeThere(life.name, tuple(sorted(decoded(each.folder) for each in life.tables())))
            for life in Life.all(Target.of(root))
        ]
    except TargetProblem as problem:
        return Refused(problem.problem, problem.remedy)
    except (OSError, pa.ArrowException) as error:
        return Refused(f"it cannot be listed ({type(error).__name__})", "Check the address")
