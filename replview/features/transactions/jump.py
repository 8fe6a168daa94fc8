"""From what somebody typed to a transaction: an xid, a gid or an LSN."""

from replview.store.fields import LSN
from replview.store.models import Transaction
from replview.store.read.history_places import first_seqs_from_lsn, lives_of

_NOT_SHOWN = (Transaction.State.DISCARDED, Transaction.State.COPYING)


def find_transaction(text: str, slot: str = "") -> Transaction | None:
    """The newest transaction of that xid or gid, or the one an LSN falls into; ``slot``
    (``source/name``) says where to look, empty: everywhere.
    """
    shown = Transaction.objects.exclude(state__in=_NOT_SHOWN)
    if slot:
        shown = shown.filter(incarnation__in=[life.id for life in lives_of(slot)])
    found = shown.filter(gid=text).order_by("-id").first()
    if found is None and text.isascii() and text.isdigit() and len(text) <= 10:
        found = shown.filter(xid=int(text)).order_by("-id").first()
    return found or _at_lsn(text, slot)


def _at_lsn(text: str, slot: str) -> Transaction | None:
    """The first commit at or after the LSN, of the newest life that has one."""
    try:
        lsn = LSN.parse(text)
    except ValueError:
        return None
    first = first_seqs_from_lsn(slot, lsn)
    if not first:
        return None
    life = max(first)
    rows = Transaction.objects.exclude(state__in=_NOT_SHOWN)
    return rows.filter(incarnation=life, commit_seq=first[life]).first()
