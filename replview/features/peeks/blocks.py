"""The first changes of a look as the blocks of the live page, by transaction."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from replview.store.read.changes.page import ChangeRow
from replview.store.read.visibility import current_sight
from replview.ui.changes.change_blocks import Block, blocks_of
from replview.ui.changes.withheld_changes import seen_peeked

_LETTERS = {
    "insert": "I",
    "update": "U",
    "delete": "D",
    "truncate": "T",
    "message": "M",
    "snapshot": "S",
}
_OWN_FIELDS = ("cascade", "restart_identity", "prefix", "content", "content_base64",
               "transactional")  # fmt: skip


@dataclass(slots=True)
class Group:
    """Changes of one transaction that follow each other."""

    name: str
    blocks: list[Block] = field(default_factory=list)


def groups_of(changes: Iterable[Mapping[str, Any]], source_id: int) -> list[Group]:
    """Blocks in the order of the stream, a heading wherever another transaction begins; without
    what whoever looks may not see.
    """
    sight = current_sight()
    groups: list[Group] = []
    for number, change in enumerate(changes, start=1):
        xid = change.get("gid") or change.get("xid")
        name = "" if xid is None else str(xid)
        if not groups or groups[-1].name != name:
            groups.append(Group(name))
        row = seen_peeked(_row(change, number), source_id, sight)
        groups[-1].blocks += blocks_of([row])
    return groups


def _row(change: Mapping[str, Any], number: int) -> ChangeRow:
    """A change of the one JSON form as the store would hold it, as far as it goes.

    It has no transaction of ours and no key hash: so nothing is derived from the record.
    """
    op = _LETTERS.get(str(change.get("op")), "M")
    old, new = _image(change.get("old")), _image(change.get("new"))
    if op in "TM":
        new = {name: change[name] for name in _OWN_FIELDS if name in change}
    key = _image(change.get("key")) or {}
    # The order in which the server sent them, where it was kept.
    names = [*(change.get("columns") or []), *(new or old or {}), *(change.get("not_sent") or [])]
    return ChangeRow(
        transaction_id=0,
        seq=change.get("seq") or number,
        lsn=str(change.get("lsn") or ""),
        subxid=change.get("subxid"),
        op=op,
        old_kind=_old_kind(old, key),
        old=old,
        new=new,
        relation_id=None,
        key_hash=None,
        old_key_hash=None,
        schema=change.get("schema"),
        table=change.get("table") or ("unknown" if op not in "TM" else None),
        version=change.get("version"),
        replica_identity="FULL" if _old_kind(old, key) == "O" else None,
        columns=[] if op in "TM" else [{"name": str(name)} for name in dict.fromkeys(names)],
        key_columns=list(key),
    )


def _image(value: Any) -> dict[str, Any] | None:
    return dict(value) if isinstance(value, Mapping) else None


def _old_kind(old: Mapping[str, Any] | None, key: Mapping[str, Any]) -> str | None:
    """The whole old row, or no more than its key."""
    if not old:
        return None
    return "K" if set(old) <= set(key) else "O"
