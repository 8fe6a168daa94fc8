"""Changes as every page shows them: what differs, what does not, and what nobody knows.

``templates/changes/_block.html`` draws a block; its styles are ``css/ui/changes.css``, what its
buttons do is ``js/ui/changes/main.js``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from replview.access.visibility import reading_session
from replview.store.read.changes.as_sql import undo_problem
from replview.store.read.row_history.before_images import Before, before_images
from replview.store.read.rows import ChangeRow
from replview.store.read.visibility import NO_RIGHT
from replview.store.write.access_record import viewed_changes
from replview.text.formats import bytes_words
from replview.ui.changes.cells import Block, Cell, cell
from replview.ui.changes.change_lines import Sheet, tell_one_side, tell_update

OPERATION_NAMES = {
    "I": "insert",
    "U": "update",
    "D": "delete",
    "T": "truncate",
    "M": "message",
    "S": "snapshot",
}
_KEY_CHARACTERS = 80


def blocks_of(
    changes: Iterable[ChangeRow],
    *,
    all_columns: bool = False,
    not_undone: str = "",
    before: Mapping[tuple[int, int], Before] | None = None,
) -> list[Block]:
    """The blocks of a page of changes, before images derived from the record where none was sent.

    ``all_columns`` unfolds what stayed the same; ``not_undone`` says why none of them can be taken
    back, whatever is known of them; ``before``: the before images, where they are known already.
    What a page may compare and show is bounded: a
    very wide or very long row shows its first columns, its long values cut.
    """
    changes = list(changes)
    viewed_changes(changes)
    before = before_images(reading_session(), changes) if before is None else before
    sheet = Sheet(all_columns=all_columns)
    blocks = []
    for change in changes:
        block = _block(change, before.get((change.transaction_id, change.seq)), sheet)
        block.undo_problem = not_undone or block.undo_problem
        blocks.append(block)
    return blocks


def _block(change: ChangeRow, previous: Any, sheet: Sheet) -> Block:
    block = Block(
        seq=change.seq,
        op=change.op,
        operation=OPERATION_NAMES.get(change.op, change.op),
        table=change.table or "",
        schema=change.schema or "",
        version=change.version,
        key=[],
        transaction_id=change.transaction_id,
        relation_id=change.relation_id,
        subxid=change.subxid,
        aborted=change.aborted,
        hidden=change.hidden,
    )
    if change.hidden:
        _tell_hidden(block, change.new or {})
    elif change.op == "M":
        _tell_message(block, change.new or {})
    elif change.op == "T":
        _tell_truncate(block, change.new or {})
    else:
        _tell_key(block, change)
        if previous is not None:
            block.before_id = getattr(previous, "transaction_id", None)
            block.before_name = "message" if previous.xid is None else str(previous.xid)
            block.before_time = previous.commit_time
        tell = tell_update if change.op == "U" else tell_one_side
        tell(block, change, previous, sheet)
    block.undo_problem = undo_problem(change, previous)
    return block


def _tell_hidden(block: Block, message: Mapping[str, Any]) -> None:
    """That something changed, not what."""
    block.words = f"you have {NO_RIGHT}"
    if block.op == "M":
        block.table = str(message.get("prefix", ""))
    else:
        block.words += " of this table"


def _tell_key(block: Block, change: ChangeRow) -> None:
    """The row's key: after the change, for a delete before it."""
    whole: dict[str, str | None] = {}
    for name in change.key_columns:
        image = next((i for i in (change.new, change.old) if i and name in i), None)
        if image is None:
            continue
        value = image[name]
        block.key.append((name, cell(value, "new").text[:_KEY_CHARACTERS]))
        if value is None or isinstance(value, str):
            whole[name] = value
    if len(whole) == len(change.key_columns):
        block.key_values = whole


def _tell_message(block: Block, message: Mapping[str, Any]) -> None:
    block.table = str(message.get("prefix", ""))
    content = message.get("content")
    if content is None and "content_base64" in message:
        size = len(str(message["content_base64"])) * 3 // 4
        block.content = Cell(f"{bytes_words(size)} that are not text", "marked")
    elif isinstance(content, Mapping):
        size = int(content.get("$cut") or content.get("$aside") or 0)
        block.content = cell(content, "new")
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
