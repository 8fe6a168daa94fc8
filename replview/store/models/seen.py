"""Managers that hide the rows of sources which the current account may not see.

Code that answers a request sets the sources of its account (``only_of``); from then on every query
over sources, and over what belongs to a source, omits the rest. Commands and workers see
everything. Related objects of a row (``slot.source``), and deleting, are not restricted.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, TypeVar

from django.db import models
from django.db.models import Q

#: Returns the ids of the visible sources, or None: all.
Sources = Callable[[], frozenset[int] | None]

_sources: ContextVar[Sources | None] = ContextVar("sources", default=None)
M = TypeVar("M", bound=models.Model)


@contextmanager
def only_of(sources: Sources) -> Iterator[None]:
    """Restrict the queries of the block to these sources, which are evaluated for each query."""
    token = _sources.set(sources)
    try:
        yield
    finally:
        _sources.reset(token)


def seen_sources() -> frozenset[int] | None:
    """Return the ids of the visible sources; None: all."""
    read_ids = _sources.get()
    return None if read_ids is None else read_ids()


def seen_ids() -> list[int] | None:
    """Return the visible sources' ids as a parameter for SQL over several sources; None: all."""
    source_ids = seen_sources()
    return None if source_ids is None else sorted(source_ids)


class VisibleManager(models.Manager[M]):
    """A manager that returns the rows of visible sources."""

    #: Path from the model to its source's identifier. It is a class attribute, since Django derives
    #: the managers of related rows from the class.
    path: ClassVar[str] = "source_id"
    #: True when rows without a source are visible to everybody.
    of_none: ClassVar[bool] = False

    def get_queryset(self) -> Any:
        """Return the rows of visible sources."""
        rows = super().get_queryset()
        source_ids = seen_sources()
        if source_ids is None:
            return rows
        condition = Q((f"{self.path}__in", source_ids))
        if self.of_none:
            condition |= Q((f"{self.path.removesuffix('_id')}__isnull", True))
        return rows.filter(condition)


class SeenSources(VisibleManager[M]):
    """A manager that returns the visible sources themselves."""

    path = "pk"


class SeenOrNone(VisibleManager[M]):
    """A manager that also returns rows without a source."""

    of_none = True


class SeenOfSlot(VisibleManager[M]):
    """A manager of rows with a ``slot``."""

    path = "slot__source_id"


class SeenOfSlotOrNone(SeenOfSlot[M]):
    """A manager of rows with a ``slot``, which also returns rows without one."""

    of_none = True


class SeenOfRelation(VisibleManager[M]):
    """A manager of rows with a ``relation``."""

    path = "relation__slot__source_id"


class SeenOfIncarnation(VisibleManager[M]):
    """A manager of rows with an ``incarnation``."""

    path = "incarnation__slot__source_id"


class SeenOfLake(VisibleManager[M]):
    """A manager of rows with a ``lake``."""

    path = "lake__slot__source_id"
