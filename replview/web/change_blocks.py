"""Changes as the drawer and the transaction's page show them: what differs, what does not, and
what nobody knows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from replview.store.history import ChangeRow, previous_changes
from replview.web.cells import Cell, Line, cell
from replview.web.json_lines import compared
from replview.web.words import bytes_words

OPERATION_NAMES = {
    "I": "insert",
    "U": "update",
    "D": "delete",
    "T": "truncate",
    "M": "message",
    "S": "snapshot",
}


@dataclass(slots=True)
class Block:
    """One change."""

    seq: int
    op: str
    operation: str
    table: str
    schema: str
    version: int | None
    key: list[tuple[str, str]]
    #: ``sent``, ``derived``, ``key`` or ``unknown``; empty where there is no before.
    before: str = ""
    before_from: str = ""
    lines: list[Line] = field(default_factory=list)
    #: Columns folded away: of an update those that stayed, else those beyond the first few.
    folded: list[Line] = field(default_factory=list)
    fold_word: str = ""
    not_sent: list[str] = field(default_factory=list)
    words: str = ""
    content: Cell | None = None
    subxid: int | None = None
    #: Its subtransaction was rolled back: kept, and marked.
    aborted: bool = False

    @property
    def two_sided(self) -> bool:
        """Some line has a before and an after."""
        return self.op == "U" and any(line.before for line in self.lines)


#: Columns of an insert or delete shown before the rest is folded.
_SHOWN = 8


def blocks_of(changes: Iterable[ChangeRow]) -> list[Block]:
    """The blocks of a page of changes."""
    changes = list(changes)
    before = previous_changes(changes)
    return [_block(change, before.get(change.seq)) for change in changes]


def _block(change: ChangeRow, previous: Any) -> Block:
    block = Block(
        seq=change.seq,
        op=change.op,
        operation=OPERATION_NAMES.get(change.op, change.op),
        table=change.table or "",
        schema=change.schema or "",
        version=change.version,
        key=_key(change),
        subxid=change.subxid,
        aborted=change.aborted,
    )
    if change.op == "M":
        _tell_message(block, change.new or {})
    elif change.op == "T":
        _tell_truncate(block, change.new or {})
    elif change.op == "U":
        _tell_update(block, change, previous)
    else:
        _tell_one_side(block, change, previous)
    return block


def _key(change: ChangeRow) -> list[tuple[str, str]]:
    """The row's key: after the change, for a delete before it."""
    found = []
    for name in change.key_columns:
        for image in (change.new, change.old):
            if image and name in image:
                value = cell(image[name], "new")
                found.append((name, value.text[:80]))
                break
    return found


def _tell_message(block: Block, message: Mapping[str, Any]) -> None:
    block.table = str(message.get("prefix", ""))
    content = message.get("content")
    if content is None and "content_base64" in message:
        size = len(str(message["content_base64"])) * 3 // 4
        block.content = Cell(f"{bytes_words(size)} that are not text", "marked")
    else:
        size = len(str(content or "").encode())
        block.content = cell(str(content or ""), "new", json=size > 80)
    kind = "transactional" if message.get("transactional", True) else "not transactional"
    block.words = f"{kind}, {bytes_words(size)}"


def _tell_truncate(block: Block, how: Mapping[str, Any]) -> None:
    words = ["every row removed; the server does not say which or how many"]
    if how.get("cascade"):
        words.append("CASCADE")
    if how.get("restart_identity"):
        words.append("RESTART IDENTITY")
    block.words = ", ".join(words)


def _columns(change: ChangeRow, *images: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and types in the table's order, then whatever else an image holds."""
    known = [(str(c["name"]), str(c.get("type") or "")) for c in change.columns]
    names = {name for name, _ in known}
    extra = [(name, "") for image in images for name in image if name not in names]
    return known + list(dict.fromkeys(extra))


def _is_json(type_name: str) -> bool:
    return type_name in ("json", "jsonb")


def _tell_update(block: Block, change: ChangeRow, previous: Any) -> None:
    new = change.new or {}
    sent_old = change.old or {}
    before = dict(sent_old)
    if change.old_kind == "O":
        block.before, block.before_from = "sent", f"replica identity {change.replica_identity}"
    elif previous is not None:
        # A key the server sent outweighs what we worked out ourselves.
        before = {**previous.image, **sent_old}
        block.before = "derived"
        block.before_from = f"from {previous.xid}; the server sent no old row"
    else:
        block.before = "key" if sent_old else "unknown"
        block.before_from = "the server sent no old row, and we have no earlier change of it"
    derived = block.before == "derived"
    for name, type_name in _columns(change, new, before):
        if name not in new:
            block.not_sent.append(name)
            continue
        json = _is_json(type_name)
        after = cell(new[name], "new", json=json)
        if name not in before:
            # Nobody knows whether it changed; the key did not, or it would have been sent.
            target = block.folded if name in change.key_columns else block.lines
            unknown = None if block.before in ("unknown", "key") else Cell("unknown", "unknown")
            target.append(Line(name, type_name, unknown, after))
        elif before[name] == new[name]:
            block.folded.append(Line(name, type_name, None, after))
        else:
            was = cell(before[name], "old", derived=derived and name not in sent_old, json=json)
            both = isinstance(before[name], str) and isinstance(new[name], str)
            differ = compared(before[name], new[name]) if json and both else None
            block.lines.append(Line(name, type_name, was, after, differ))
    block.fold_word = "unchanged"
    if block.before in ("unknown", "key") and len(block.lines) > _SHOWN:
        block.folded, block.lines = block.lines[_SHOWN:] + block.folded, block.lines[:_SHOWN]
        block.fold_word = "more columns"


def _tell_one_side(block: Block, change: ChangeRow, previous: Any) -> None:
    """An insert or snapshot has only an after, a delete only a before."""
    deleted = change.op == "D"
    image = (change.old if deleted else change.new) or {}
    sent = set(image)
    if deleted:
        block.before = "sent" if change.old_kind == "O" else "key"
        block.before_from = (
            f"replica identity {change.replica_identity}"
            if block.before == "sent"
            else "the server sent only the key"
        )
        if block.before == "key" and previous is not None:
            image = {**previous.image, **image}
            block.before, block.before_from = "derived", f"from {previous.xid}"
    lines = []
    for name, type_name in _columns(change, image):
        if name not in image:
            block.not_sent.append(name)
            continue
        derived = deleted and name not in sent
        side, json = "old" if deleted else "new", _is_json(type_name)
        value = cell(image[name], side, derived=derived, json=json)
        line = Line(name, type_name, value, None) if deleted else Line(name, type_name, None, value)
        lines.append(line)
    # The key stands in the block's head already.
    lines.sort(key=lambda line: line.name in change.key_columns)
    apart = sum(line.name in change.key_columns for line in lines)
    shown = min(_SHOWN, len(lines) - apart) or len(lines)
    block.lines, block.folded = lines[:shown], lines[shown:]
    block.fold_word = "more columns"
