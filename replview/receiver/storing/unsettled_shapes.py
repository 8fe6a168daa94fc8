"""This module completes the shapes of tables when the transactions that sent them end.

While a transaction is in progress it may be rolled back, and the source's catalog shows other
sessions nothing of what it altered. So the catalog is queried again at its end.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import psycopg

from decoder.events import OpenTransaction
from replview.receiver.storing.catalog_shapes import altered_again, unknown
from replview.receiver.storing.table_plans import PlannedShape, TablePlan, TablePlans, table_key
from replview.store.read.relation_shapes import made_anew
from replview.store.write.shapes import (
    Made,
    StoredShape,
    hand_shape_over,
    leave_in_force,
    note_made,
    take_shape_back,
    withdraw_shape,
)

#: Attempts, and seconds between them, to see the end of a transaction that has committed: other
#: sessions see it a moment after the stream sends it.
_ATTEMPTS = 50
_ATTEMPT_SECONDS = 0.01
_ABORTED = """
    SELECT subxid::bigint FROM aborted_subtransaction WHERE transaction_id = %s AND subxid = ANY(%s)
"""
_MOVE = """
    UPDATE change SET version_id = %s
    WHERE transaction_id = %s AND relation_id = %s AND version_id = %s
"""


@dataclass(slots=True)
class UnsettledShape:
    """A shape that was sent while its transaction was in progress.

    It may be rolled back, and the catalog did not show yet what the transaction had altered, or
    would still alter.
    """

    plan: TablePlan
    #: Result of storing the shape; ``is_new``: this transaction brought it.
    stored: StoredShape
    #: Xid of the transaction or subtransaction that sent the shape.
    xid: int | None
    #: The catalog's facts at that time about how the columns were made.
    made: Made
    #: True when the transaction held the table, so that the catalog did not show its alterations.
    held: bool
    #: True when the shape came into force with the transaction.
    in_force: bool
    transaction_id: int | None = None
    #: Everything that has sent this shape, in order: (transaction, subtransaction).
    senders: dict[tuple[int, int | None], None] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Return whether the version itself is in doubt, not only what is altered after it."""
        return self.held or self.in_force


class UnsettledShapes:
    """The shapes that transactions in progress have sent in a session."""

    def __init__(self, plans: TablePlans) -> None:
        self._plans = plans
        #: The shapes by the xid of their transaction, in the order in which they were sent.
        self.by_xid: dict[int, list[UnsettledShape]] = {}

    def register(self, planned: PlannedShape, transaction: OpenTransaction) -> None:
        """Register a shape to be settled at the end of the transaction that sent it."""
        plan, stored, xid, made, held = planned
        in_force = stored.former != stored.version_id
        shape = UnsettledShape(plan, stored, xid, made, held, in_force)
        for other in (shape, *chain.from_iterable(self.by_xid.values())):
            if other.stored.version_id == stored.version_id:
                other.senders[transaction.xid, xid] = None
        if not shape.is_open:
            # The shape is registered only because the transaction may still alter the table: once
            # is enough.
            shape.xid = transaction.xid
            registered = self.by_xid.get(transaction.xid, [])
            if any(other.stored.version_id == stored.version_id for other in registered):
                return
        if held or transaction.kind == "streamed":
            self.by_xid.setdefault(transaction.xid, []).append(shape)

    def settle(
        self, connection: psycopg.Connection[Any], top: int | None, state: str,
        transaction_id: int | None = None,
    ) -> None:  # fmt: skip
        """Complete the shapes of a transaction that has ended or was prepared.

        A shape that a rolled-back (sub)transaction brought into force is taken back. The catalog is
        queried again for tables that the transaction held when their shape was sent. (A prepared
        one goes on holding them: how their columns were made is unknown.)

        Where it altered a table, its changes get a shape of their own. Until then, an altered
        column of a table that looks unchanged can be taken for the former one.
        """
        shapes = self.by_xid.pop(top, []) if top is not None else []
        if top is None or not shapes:
            return
        for shape in shapes:
            shape.transaction_id = transaction_id or shape.transaction_id
            if shape.is_open:
                self._plans.forget_current(shape.plan.relation)
        rolled_back = _rolled_back(connection, shapes, top, state)
        for shape in reversed(shapes):
            senders = [sender for sender in shape.senders if sender[1] not in rolled_back]
            if not senders:
                take_shape_back(connection, shape.stored)
            elif shape.in_force and shape.xid in rolled_back:
                self._hand_over(connection, shape, senders)
        for shape in shapes:
            if shape.xid not in rolled_back:
                self._query_again(connection, shape, shapes, top, state)
        if state == "prepared":
            self.by_xid[top] = shapes

    def _hand_over(
        self, connection: psycopg.Connection[Any], shape: UnsettledShape,
        senders: Sequence[tuple[int, int | None]],
    ) -> None:  # fmt: skip
        """Let a version begin with the next sender of its shape: its first was rolled back."""
        top, xid = senders[0]
        hand_shape_over(connection, shape.stored, top=top, xid=xid)
        for other in self.by_xid.get(top, []):
            if other.stored.version_id == shape.stored.version_id:
                # That sender may be rolled back, too.
                former, at = shape.stored.former, shape.stored.at
                other.stored = replace(other.stored, former=former, at=at)
                other.xid, other.in_force, other.senders = xid, True, dict.fromkeys(senders)
                break

    def _query_again(
        self, connection: psycopg.Connection[Any], shape: UnsettledShape,
        shapes: Sequence[UnsettledShape], top: int, state: str,
    ) -> None:  # fmt: skip
        """Store what the catalog shows now of one of the transaction's ``shapes``."""
        relation = shape.plan.relation
        self._plans.forget_looks(relation)
        made, mine, held = self._made(shape, top, attempts=1 if state == "prepared" else _ATTEMPTS)
        same_table = [o for o in shapes if table_key(o.plan.relation) == table_key(relation)]
        if held:
            made = unknown(relation)
        elif sum(other.is_open for other in same_table) > 1:
            # The transaction may have altered the table between its shapes.
            made = altered_again(relation, made, mine)
        if not shape.held and not made_anew(shape.made, made):
            return
        shape.held = shape.held or held
        self._plans.forget_current(relation)
        if shape.stored.is_new:
            note_made(connection, shape.plan.version_id, made)
        else:
            self._store_again(connection, shape, top, made)

    def _made(
        self, shape: UnsettledShape, top: int, *, attempts: int
    ) -> tuple[Made, set[int | None], bool]:
        """Return how columns were made, once the transaction no longer holds the table.

        The result is that of ``CatalogShapes.made``; after the last attempt the table may be held.
        """
        # Columns that the catalog did not show while the table was held come from this transaction.
        before = {name: facts for name, facts in shape.made.items() if facts}
        for _ in range(attempts):
            made, mine, held = self._plans.catalog.made(shape.plan.relation, shape.xid, top, before)
            if not held:
                break
            time.sleep(_ATTEMPT_SECONDS)
        return made, mine, held

    def _store_again(
        self, connection: psycopg.Connection[Any], shape: UnsettledShape, top: int, made: Made
    ) -> None:
        """Store the shape that the transaction made, and assign its changes to that shape."""
        plan, former = shape.plan, shape.plan.version_id
        current = withdraw_shape(connection, shape.stored)
        stored = self._plans.store(
            connection, self._plans.catalog.shape(plan.relation, shape.xid),
            lsn=0, xid=shape.xid, top=top, made=made, at=shape.stored.at,
        )  # fmt: skip
        if current is not None:
            leave_in_force(connection, stored, current)
        shape.stored = replace(stored, former=shape.stored.former)
        if stored.version_id != former:
            change_keys = [shape.transaction_id, plan.relation_id, former]
            connection.execute(_MOVE, [stored.version_id, *change_keys])
            plan.use_version(stored)


def _rolled_back(
    connection: psycopg.Connection[Any], shapes: Sequence[UnsettledShape], top: int, state: str
) -> set[int | None]:
    """Return which (sub)transactions of the transaction's shapes were rolled back."""
    xids = {subxid for shape in shapes for xid, subxid in shape.senders if xid == top}
    if state in ("committed", "prepared"):
        rows = connection.execute(_ABORTED, [shapes[0].transaction_id, list(xids)])
        return {row[0] for row in rows}
    return xids if state in ("aborted", "rolled back") else set()
