"""A browser's filter of the live stream, applied on the server.

The page's address and the socket's messages use the same words: the parameters of a transaction
filter that have a predicate.
"""

from collections.abc import Mapping
from typing import Self

from replview.live.summaries import Summary
from replview.store.read.history import OPEN_STATES
from replview.store.read.transactions.field_matches import Candidate
from replview.store.read.transactions.fields import FIELDS
from replview.store.read.transactions.transaction_filter import TransactionFilter

_PARAMETERS = [field.parameter for field in FIELDS if field.matches is not None]


class LiveFilter:
    """A filter of the fields that the live page offers. An empty one lets everything through."""

    def __init__(self, filter_: TransactionFilter | None = None) -> None:
        self.filter = filter_ or TransactionFilter()
        self._matches = self.filter.predicate()

    @classmethod
    def from_words(cls, words: Mapping[str, object]) -> Self:
        """Read an address's parameters or a socket's message; unknown words are ignored."""
        offered = {name: words.get(name) for name in _PARAMETERS}
        return cls(TransactionFilter.from_words(offered))

    @property
    def text(self) -> str:
        """Return the text to search for."""
        return self.filter.text

    @property
    def everything(self) -> bool:
        """Return whether the filter has no condition."""
        return not self.filter.narrowed

    @property
    def only_open(self) -> bool:
        """Return whether only open transactions pass, so that history need not be searched."""
        return self.filter.wanted_states <= {*OPEN_STATES}

    def lets_through(self, summary: Summary, text_hits: set[int] | None = None) -> bool:
        """Return whether the transaction passes the filter.

        ``text_hits`` are the transactions whose values contain the text.
        """
        row = summary.row
        return self._matches(Candidate(row, summary.names, row.id in (text_hits or ())))
