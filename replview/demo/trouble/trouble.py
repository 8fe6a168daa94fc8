"""What every trouble has: how it comes, how it goes, the rules that see it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from replview.demo.trouble.place import Place


class CannotMake(Exception):
    """Why the trouble cannot be made now, in a sentence for the page."""


class Trouble(ABC):
    """One way in which replication goes wrong."""

    #: As ``store.demo_troubles.NAMES`` has it.
    name: ClassVar[str]
    #: It ends by itself after so long.
    lasts_seconds: ClassVar[float] = 300.0
    #: Alert rules, beside those that come with replview, that are on while the trouble is: a demo
    #: has no patience for half an hour.
    rules: ClassVar[tuple[dict[str, Any], ...]] = ()

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def make(self) -> Iterator[bool]:
        """Make it and keep it up: False while it is coming, True while it is there.

        Asked for the next every ``pause_seconds``; it may end by itself. Raises ``CannotMake``.
        """

    @abstractmethod
    def end(self) -> None:
        """Undo it, whoever made it and however far it came; nothing is left when this returns.

        May be called when there is nothing to undo.
        """

    def is_over(self) -> bool:
        """Whether its consequences are over, once it has been ended."""
        return True

    #: Between two steps of ``make``.
    pause_seconds: ClassVar[float] = 0.5
