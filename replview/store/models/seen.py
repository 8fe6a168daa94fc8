"""An account that may not see a source finds nothing that belongs to it.

Whoever answers a request names its account (``only_of``); from then on every query over sources,
and over what belongs to one, leaves out what this account does not see. Commands and workers see
everything. Related objects of one that was found (``slot.source``), and deleting, go past this.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, TypeVar

from django.db import models
from django.db.models import Q

#: Gives the ids of the sources that are seen, or None: all.
Sources = Callable[[], frozenset[int] | None]

_sources: ContextVar[Sources | None] = ContextVar("sources", default=None)
M = TypeVar("M", bound=models.Model)


@contextmanager
def only_of(sources: Sources) -> Iterator[None]:
    """Let queries of the block see these sources only; they are asked for with each query."""
    token = _sources.set(sources)
    try:
        yield
    finally:
        _sources.reset(token)


def seen_sources() -> frozenset[int] | None:
    """Return the ids of the sources that are seen here; None: all are."""
    ask = _sources.get()
    return None if ask is None else ask()


def seen_ids() -> list[int] | None:
    """The same for a statement's array: every statement over several sources must ask."""
    seen = seen_sources()
    return None if seen is None else sorted(seen)


class Seen(models.Manager[M]):
    """Rows of sources that are seen here."""

    #: From the model to the identifier of its source. (Of the class: managers of related rows are
    #: made of it.)
    path: ClassVar[str] = "source_id"
    #: What is of no source is everybody's.
    of_none: ClassVar[bool] = False

    def get_queryset(self) -> Any:
        rows = super().get_queryset()
        seen = seen_sources()
        if seen is None:
            return rows
        wanted = Q((f"{self.path}__in", seen))
        if self.of_none:
            wanted |= Q((f"{self.path.removesuffix('_id')}__isnull", True))
        return rows.filter(wanted)


class SeenSources(Seen[M]):
    path = "pk"


class SeenOrNone(Seen[M]):
    of_none = True


class SeenOfSlot(Seen[M]):
    path = "slot__source_id"


class SeenOfSlotOrNone(SeenOfSlot[M]):
    of_none = True


class SeenOfRelation(Seen[M]):
    path = "relation__slot__source_id"


class SeenOfIncarnation(Seen[M]):
    path = "incarnation__slot__source_id"
