"""A browser's filter of the live stream, applied on the server.

The page's address and the socket's messages use the same words: ``tables``, ``ops``,
``actor``, ``origin``, ``q``, ``states``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from replview.live.summaries import Summary
from replview.text.parsing import clean_text, listed, plain_name, read_table_word

#: Operations in the order the toolbar shows them.
OPERATIONS = "IUDTM"
#: Values for "no actor is known" in ``actor``, and "written on the source itself" in ``origin``.
UNKNOWN_ACTOR = "?"
NO_ORIGIN = "-"

#: The value in ``states`` for every open state.
OPEN = "open"
OPEN_STATES = frozenset({"receiving", "streaming", "prepared"})

_TEXT_LIMIT = 200
_LIST_LIMIT = 100


@dataclass(frozen=True, slots=True)
class LiveFilter:
    """The conditions of a filter. An empty filter lets everything through."""

    #: Tables as ``read_table_word`` returns them.
    tables: frozenset[str] = frozenset()
    ops: str = OPERATIONS
    actor: str = ""
    origin: str = ""
    text: str = ""
    states: frozenset[str] = frozenset()

    @classmethod
    def from_words(cls, words: Mapping[str, object]) -> "LiveFilter":
        """Read an address's parameters or a socket's message; unknown words are ignored."""
        ops = str(words.get("ops") or OPERATIONS).upper()
        return cls(
            tables=frozenset(map(read_table_word, _names(words.get("tables")))),
            ops="".join(letter for letter in OPERATIONS if letter in ops) or OPERATIONS,
            actor=clean_text(words.get("actor"), _TEXT_LIMIT, strip=False),
            origin=clean_text(words.get("origin"), _TEXT_LIMIT, strip=False),
            text=clean_text(words.get("q"), _TEXT_LIMIT),
            states=_names(words.get("states")),
        )

    @property
    def everything(self) -> bool:
        """Return whether the filter has no condition."""
        return self == LiveFilter()

    @property
    def only_open(self) -> bool:
        """Return whether only open transactions pass, so that history need not be searched."""
        return bool(self.states) and self.states <= OPEN_STATES | {OPEN}

    def lets_through(self, summary: Summary, text_hits: set[int] | None = None) -> bool:
        """Return whether the transaction passes the filter.

        ``text_hits`` are the transactions whose values contain the text; this function searches
        the names, xid and gid.
        """
        row = summary.row
        is_open = OPEN in self.states and row.state in OPEN_STATES
        if self.states and row.state not in self.states and not is_open:
            return False
        if self.actor and self.actor not in (name or UNKNOWN_ACTOR for name in row.names):
            return False
        if self.origin and (row.origin or NO_ORIGIN) != self.origin:
            return False
        if not self._lets_operations_through(summary):
            return False
        return not self.text or row.id in (text_hits or ()) or summary.mentions(self.text)

    def _lets_operations_through(self, summary: Summary) -> bool:
        """Return whether a wanted operation happened on a wanted table."""
        if self.ops == OPERATIONS and not self.tables:
            return True
        if summary.row.state == "snapshot":  # which has no operations
            on_chosen_table = any(self._chooses(name) for name, *_ in summary.tables)
            return self.ops == OPERATIONS and on_chosen_table
        if "M" in self.ops and summary.row.messages and not self.tables:
            return True
        for name, *counts in summary.tables:
            if self.tables and not self._chooses(name):
                continue
            if any(
                count and letter in self.ops for letter, count in zip("IUDT", counts, strict=True)
            ):
                return True
        # A transaction without published changes is shown unless operations are chosen.
        return self.ops == OPERATIONS and not self.tables

    def _chooses(self, name: str) -> bool:
        """Return whether a table, named as ``table_word`` writes it, is chosen."""
        return name in self.tables or plain_name(name) in self.tables


def _names(value: object) -> frozenset[str]:
    parts = listed(value) if isinstance(value, str) else value or ()
    if not isinstance(parts, list | tuple):
        return frozenset()
    return frozenset(str(part) for part in parts[:_LIST_LIMIT] if part)
