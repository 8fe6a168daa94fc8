"""From what somebody typed to a transaction: an xid, a gid or an LSN."""

from replview.store.fields import LSNField
from replview.store.models import SlotIncarnation, Transaction

_ENDED = Transaction.objects.exclude(state=Transaction.State.DISCARDED)


def find_transaction(text: str) -> Transaction | None:
    """The newest transaction of that xid or gid, or the one an LSN falls into."""
    found = _ENDED.filter(gid=text).order_by("-id").first()
    if found is None and text.isascii() and text.isdigit() and len(text) <= 10:
        found = _ENDED.filter(xid=int(text)).order_by("-id").first()
    if found is None:
        found = _at_lsn(text)
    return found


def _at_lsn(text: str) -> Transaction | None:
    """The first commit at or after the LSN, of the newest life that has one."""
    try:
        lsn = LSNField().to_python(text)
    except ValueError:
        return None
    if lsn is None:
        return None
    for incarnation in SlotIncarnation.objects.order_by("-id")[:100]:
        found = _first_commit_from(incarnation, lsn)
        if found is not None:
            return found
    return None


def _first_commit_from(incarnation: SlotIncarnation, lsn: int) -> Transaction | None:
    """By bisection: within a life commit_lsn grows with commit_seq, which has an index."""
    commits = Transaction.objects.filter(incarnation=incarnation, commit_seq__isnull=False)
    low, found = 0, None
    high = incarnation.commit_seq
    while low < high:
        middle = (low + high) // 2
        row = commits.filter(commit_seq__gt=middle).order_by("commit_seq").first()
        if row is None or row.commit_seq is None:
            high = middle
        elif row.commit_lsn is not None and int(row.commit_lsn) >= int(lsn):
            found, high = row, middle
        else:
            low = row.commit_seq
    return found
