"""All changes of a slot in the order of history, however many: read in pages, never held.

Pages are cut by key rather than taken from one long cursor, so that reading for hours (a pipe, a
download) keeps no old snapshot open in the store. The live page's reads are ``store.history``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from decoder.scalars import LSN
from replview.store.change_json import Record, change_json
from replview.store.models import (
    AbortedSubtransaction,
    Change,
    Relation,
    RelationVersion,
    Slot,
    SlotIncarnation,
    Transaction,
)

#: How many changes (and how many transactions) are in memory at once.
PAGE = 2000
_COUNTED = [Transaction.State.COMMITTED, Transaction.State.MESSAGE]


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in a slot's history: after this transaction of this life."""

    #: The incarnation's number.
    incarnation: int
    commit_seq: int


def iterate_changes(
    slot: Slot,
    *,
    relation: tuple[str, str] | None = None,
    from_lsn: LSN | None = None,
    to_lsn: LSN | None = None,
    after: Cursor | None = None,
) -> Iterator[tuple[Cursor, Record]]:
    """Every counted change after ``after``, with the place to go on from once it is consumed.

    ``relation`` is (schema, table), by its present name or one it had. The LSNs bound the commit's
    position, both included; as positions compare only within one life of a slot, a bound means its
    present life alone.
    """
    lives = SlotIncarnation.objects.filter(slot=slot).order_by("number")
    if from_lsn is not None or to_lsn is not None:
        lives = lives.filter(pk=slot.incarnation_id or 0)
    reader = _Reader(slot, relation, from_lsn, to_lsn)
    for life in lives:
        if after is None or life.number >= after.incarnation:
            same = after is not None and life.number == after.incarnation
            yield from reader.life(life, after.commit_seq if same and after else 0)


def last_cursor(slot: Slot) -> Cursor | None:
    """Where history ends now; None while the slot has no life yet."""
    life = SlotIncarnation.objects.filter(slot=slot).order_by("-number").first()
    return None if life is None else Cursor(life.number, life.commit_seq)


def changes_of_transactions(identifiers: list[int]) -> QuerySet[Change]:
    """Changes of these transactions without those of aborted subtransactions."""
    aborted = AbortedSubtransaction.objects.filter(
        transaction_id=OuterRef("transaction_id"), subxid=OuterRef("subxid")
    )
    return Change.objects.filter(~Exists(aborted), transaction_id__in=identifiers)


class _Reader:
    """What is asked for, and the shapes seen so far."""

    def __init__(
        self,
        slot: Slot,
        relation: tuple[str, str] | None,
        from_lsn: LSN | None,
        to_lsn: LSN | None,
    ) -> None:
        self._slot = slot
        self._relations = None if relation is None else _relation_ids(slot, *relation)
        self._bounds = _bound("gte", from_lsn) & _bound("lte", to_lsn)
        self._versions: dict[int, RelationVersion] = {}

    def life(self, life: SlotIncarnation, after_seq: int) -> Iterator[tuple[Cursor, Record]]:
        """The changes of one life, transactions in commit order, changes in theirs."""
        position = after_seq
        while page := list(self._transactions(life, position)[:PAGE]):
            for group in _groups(page):
                for transaction, change in self._changes(group):
                    place = Cursor(life.number, transaction.commit_seq or 0)
                    version = self._version(change.version_id)
                    yield place, change_json(change, transaction, version, self._slot, life.number)
            position = page[-1].commit_seq or position

    def _transactions(self, life: SlotIncarnation, position: int) -> QuerySet[Transaction]:
        found = Transaction.objects.filter(
            self._bounds, incarnation=life, commit_seq__gt=position, state__in=_COUNTED
        )
        if self._relations is not None:
            found = found.filter(relations__has_any_keys=[str(key) for key in self._relations])
        return found.order_by("commit_seq")

    def _changes(self, group: list[Transaction]) -> Iterator[tuple[Transaction, Change]]:
        """Of a group of small transactions in one read, or of one large one page by page."""
        if len(group) > 1:
            by_id = {transaction.id: transaction for transaction in group}
            rows = list(self._rows(list(by_id)))
            rows.sort(key=lambda row: (by_id[row.transaction_id].commit_seq, row.seq))
            yield from ((by_id[row.transaction_id], row) for row in rows)
            return
        (transaction,) = group
        after_seq = 0
        found = self._rows([transaction.id]).order_by("seq")
        while rows := list(found.filter(seq__gt=after_seq)[:PAGE]):
            yield from ((transaction, row) for row in rows)
            after_seq = rows[-1].seq

    def _rows(self, identifiers: list[int]) -> QuerySet[Change]:
        found = changes_of_transactions(identifiers)
        if self._relations is not None:
            found = found.filter(relation_id__in=self._relations)
        return found

    def _version(self, identifier: int | None) -> RelationVersion | None:
        if identifier is None:
            return None
        if identifier not in self._versions:
            known = RelationVersion.objects.select_related("relation")
            self._versions[identifier] = known.get(pk=identifier)
        return self._versions[identifier]


def _groups(page: list[Transaction]) -> Iterator[list[Transaction]]:
    """Neighbours together while their changes fit a page; a larger one alone."""
    group: list[Transaction] = []
    size = 0
    for transaction in page:
        changes = (
            transaction.inserts
            + transaction.updates
            + transaction.deletes
            + transaction.truncates
            + transaction.messages
        )
        if group and size + changes > PAGE:
            yield group
            group, size = [], 0
        group.append(transaction)
        size += changes
    if group:
        yield group


def _relation_ids(slot: Slot, schema: str, table: str) -> list[int]:
    """The tables that have this name or had it in some version."""
    versions = RelationVersion.objects.filter(relation__slot=slot, schema=schema, table=table)
    present = Relation.objects.filter(slot=slot, schema=schema, table=table)
    had_it = versions.values_list("relation_id", flat=True)
    return sorted({*present.values_list("pk", flat=True), *had_it})


def _bound(comparison: str, lsn: LSN | None) -> Q:
    """A bound on the commit's position; a non-transactional message has its own instead."""
    if lsn is None:
        return Q()
    return Q(**{f"commit_lsn__{comparison}": lsn}) | Q(
        commit_lsn__isnull=True, **{f"first_lsn__{comparison}": lsn}
    )
