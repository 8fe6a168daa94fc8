"""Replay the changes of many rows, given as Arrow columns: a pure function for either engine.

Values are not copied: the replay carries the number of the input row that holds a value, and
digests tell whether two values differ.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from replview.spark.history.chain_replay import ChainReplay
from replview.spark.history.replay_piece import Piece, TableFacts
from replview.spark.history.simple_replay import SimpleReplay


class Interrupted(Exception):
    """The session of a replay was interrupted."""


def never() -> bool:
    """Return False: Spark ends its workers itself."""
    return False


@dataclass(frozen=True)
class RowReplay(TableFacts):
    """The replay of a table's changes."""

    #: Says whether the session was interrupted, which a replay of many chains must notice.
    is_interrupted: Callable[[], bool] = never

    def __call__(self, changes: pa.Table) -> pa.Table:
        """Return the changes with ``ADDED`` and known values, without rows before updates.

        Input columns: ``PLACE``, ``_change_type``, ``_commit_timestamp``, ``_relation_version``,
        ``_not_sent``; ``key``, a hash of the row's key, and ``row_id``, the identity that it stands
        for; ``is_carried`` for a state of earlier changes, which were counted; ``nameless`` for a
        change that does not say which row it is of; ``digest<n>`` for each column, and for some
        ``value<n>``, then with ``_pg_raw``. All changes of the keys between which rows moved must
        be there. Raises ``Interrupted``.
        """
        piece = Piece(self, changes)
        SimpleReplay(piece).run()
        for rows in piece.chains():
            if self.is_interrupted():
                raise Interrupted
            ChainReplay(piece, rows).run()
        return piece.result()
