"""Build the blocks that show changes: what differs, what does not, and what is unknown.

``templates/ui/changes/_block.html`` draws a block; its styles are ``css/ui/changes.css``, the code
of its buttons is ``js/ui/changes/main.js``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from replview.access.visibility import reading_session
from replview.store.read.changes.as_sql import undo_problem
from replview.store.read.changes.records import OPERATIONS
from replview.store.read.changes.values import ALTERED, changed_nothing, same_value
from replview.store.read.row_history.before_images import before_images
from replview.store.read.row_history.replay import BeforeImage
from replview.store.read.rows import ChangeRow
from replview.store.read.visibility import NO_RIGHT
from replview.store.write.access_record import viewed_changes
from replview.text.formats import bytes_words, short_type
from replview.ui.changes.cells import Block, Cell, ColumnLine, cell
from replview.ui.changes.value_diff import compared, text_diff

#: Most columns of an insert or delete that are not folded.
_UNFOLDED = 8
#: Most columns drawn of one change, without and with ``all_columns``; the others are named.
_MOST_LINES = 60
_MOST_LINES_ALL = 2_000
#: Least characters of a text that is compared by word; shorter ones are shown whole.
_LONG_TEXT = 60
_KEY_CHARACTERS = 80
_JSON_TYPES = ("json", "jsonb")


@dataclass(slots=True)
class Sheet:
    """The room that is left on a page for all its changes."""

    all_columns: bool = False
    #: Characters that may still be compared by word or line.
    characters: int = 400_000
    lines: int = 6_000


def _columns(change: ChangeRow, *images: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and types of columns in the table's order, then the other ones of the images."""
    columns = [
        (str(c["name"]), short_type(str(c.get("type") or ""), qualified=True))
        for c in change.columns
    ]
    names = {name for name, _ in columns}
    extra = [(name, "") for image in images for name in image if name not in names]
    return columns + list(dict.fromkeys(extra))


def fill_update(block: Block, change: ChangeRow, previous: Any, sheet: Sheet) -> None:
    """Fill the block of an update: before and after of what differs; what did not is folded."""
    new, sent_old = change.new or {}, change.old or {}
    before = _before_of_update(block, change, previous)
    unknown_before = block.before in ("unknown", "key")
    altered = () if previous is None else previous.altered
    #: True when a masked value is among them, for which it is unknown whether it changed.
    includes_masked = False
    for name, type_name in _columns(change, new, before):
        key = name in change.key_columns
        if name not in new:
            block.not_sent.append(name)
            continue
        json = type_name in _JSON_TYPES
        after = cell(new[name], "new", json=json)
        if name not in before:
            # A key column was not sent, so it did not change. Any other may have changed.
            label = ALTERED if name in altered else "unknown"
            unknown = None if unknown_before else Cell(label, "unknown")
            line = ColumnLine(name, type_name, None if key else unknown, after, key=key, same=key)
            (block.folded if key else block.lines).append(line)
        elif (is_same := same_value(before[name], new[name])) is not False:
            includes_masked = includes_masked or is_same is None
            block.folded.append(ColumnLine(name, type_name, None, after, key=key, same=True))
        else:
            derived = block.before == "derived" and name not in sent_old
            before_cell = cell(before[name], "old", derived=derived, json=json)
            differ = _difference(before[name], new[name], json, sheet)
            block.lines.append(ColumnLine(name, type_name, before_cell, after, *differ, key=key))
    block.fold_word = "unchanged or masked" if includes_masked else "unchanged"
    block.changed_nothing = changed_nothing(change, previous.image if previous else None)
    if unknown_before and len(block.lines) > _UNFOLDED and not sheet.all_columns:
        block.folded, block.lines = block.lines[_UNFOLDED:] + block.folded, block.lines[:_UNFOLDED]
        block.fold_word = "more"
    _limit_columns(block, sheet)


def _before_of_update(block: Block, change: ChangeRow, previous: Any) -> dict[str, object]:
    sent_old = change.old or {}
    if change.old_kind == "O":
        block.before, block.before_from = "sent", f"replica identity {change.replica_identity}"
    elif previous is not None:
        block.before, block.before_from = "derived", "the server sent no old row"
        # A key that the server sent takes precedence over a derived value.
        return {**previous.image, **sent_old}
    else:
        block.before = "key" if sent_old else "unknown"
        sent_part = "no more of the old row" if sent_old else "no old row"
        block.before_from = f"the server sent {sent_part}, and earlier changes do not show it"
    return dict(sent_old)


def _difference(before: Any, after: Any, json: bool, sheet: Sheet) -> tuple[Any, Any]:
    """Return the difference by line or by word, for long texts while the page has room."""
    if not (isinstance(before, str) and isinstance(after, str)):
        return None, None
    size = len(before) + len(after)
    if size > sheet.characters:
        return None, None
    if json and (json_diff := compared(before, after)) is not None:
        sheet.characters -= size
        return json_diff, None
    if min(len(before), len(after)) < _LONG_TEXT and "\n" not in before + after:
        return None, None
    by_word = text_diff(before, after)
    if by_word is not None:
        sheet.characters -= by_word.compared
    return None, by_word


def fill_one_side(block: Block, change: ChangeRow, previous: Any, sheet: Sheet) -> None:
    """Fill the block of an insert or snapshot, with an after only, or a delete, with a before."""
    deleted = change.op == "D"
    image = (change.old if deleted else change.new) or {}
    sent = set(image)
    altered = previous.altered if deleted and previous is not None else ()
    if deleted:
        image = _before_of_delete(block, change, image, previous)
    lines = []
    for name, type_name in _columns(change, image):
        if name in altered:
            unknown = Cell("unknown since ALTER TABLE", "unknown")
            lines.append(ColumnLine(name, type_name, unknown, None))
            continue
        if name not in image:
            block.not_sent.append(name)
            continue
        derived = deleted and name not in sent
        side, json = "old" if deleted else "new", type_name in _JSON_TYPES
        value = cell(image[name], side, derived=derived, json=json)
        before, after = (value, None) if deleted else (None, value)
        lines.append(ColumnLine(name, type_name, before, after, key=name in change.key_columns))
    # The block's heading already shows the key.
    lines.sort(key=lambda line: line.key)
    key_lines = sum(line.key for line in lines)
    shown = min(_UNFOLDED, len(lines) - key_lines) or len(lines)
    block.lines, block.folded = lines[:shown], lines[shown:]
    block.fold_word = "more"
    if sheet.all_columns:
        block.lines, block.folded = lines, []
    _limit_columns(block, sheet)


def _before_of_delete(
    block: Block, change: ChangeRow, image: Mapping[str, object], previous: Any
) -> dict[str, object]:
    if change.old_kind == "O":
        block.before, block.before_from = "sent", f"replica identity {change.replica_identity}"
        return dict(image)
    if previous is None:
        block.before = "key" if image else "unknown"
        block.before_from = "the server sent only the key, and earlier changes do not show the row"
        return dict(image)
    block.before, block.before_from = "derived", "the server sent only the key"
    return {**previous.image, **image}


def _limit_columns(block: Block, sheet: Sheet) -> None:
    """Limit the columns to those that fit, and list the others by name."""
    if sheet.all_columns:
        block.lines = sorted(block.lines + block.folded, key=lambda line: line.same)
        block.folded = []
    room = max(8, min(_MOST_LINES_ALL if sheet.all_columns else _MOST_LINES, sheet.lines))
    more_room = max(room - len(block.lines), 0)
    surplus = block.lines[room:] + block.folded[more_room:]
    block.lines, block.folded = block.lines[:room], block.folded[:more_room]
    block.left_out = [line.name for line in surplus]
    sheet.lines -= len(block.lines) + len(block.folded)


def blocks_of(
    changes: Iterable[ChangeRow],
    *,
    all_columns: bool = False,
    not_undone: str = "",
    before: Mapping[tuple[int, int], BeforeImage] | None = None,
) -> list[Block]:
    """Return the blocks of a page of changes, with before images derived where none was sent.

    ``all_columns`` unfolds unchanged columns. ``not_undone`` is why no change here can be undone,
    whatever is known of them. ``before``: the before images, where the caller has them.
    A page has limits for columns and comparisons: a very wide or long row shows its first
    columns, with long values cut.
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
        operation=OPERATIONS.get(change.op, change.op),
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
        _fill_hidden(block, change.new or {})
    elif change.op == "M":
        _fill_message(block, change.new or {})
    elif change.op == "T":
        _fill_truncate(block, change.new or {})
    else:
        _fill_key(block, change)
        if previous is not None:
            block.before_id = getattr(previous, "transaction_id", None)
            block.before_name = "message" if previous.xid is None else str(previous.xid)
            block.before_time = previous.commit_time
        fill = fill_update if change.op == "U" else fill_one_side
        fill(block, change, previous, sheet)
    block.undo_problem = undo_problem(change, previous)
    return block


def _fill_hidden(block: Block, message: Mapping[str, object]) -> None:
    """Fill the block of a hidden change, which shows that something changed, but no value."""
    block.words = f"you have {NO_RIGHT}"
    if block.op == "M":
        block.table = str(message.get("prefix", ""))
    else:
        block.words += " of this table"


def _fill_key(block: Block, change: ChangeRow) -> None:
    """Set the row's key after the change, or for a delete before it."""
    key_values: dict[str, str | None] = {}
    for name in change.key_columns:
        image = next((i for i in (change.new, change.old) if i and name in i), None)
        if image is None:
            continue
        value = image[name]
        block.key.append((name, cell(value, "new").text[:_KEY_CHARACTERS]))
        if value is None or isinstance(value, str):
            key_values[name] = value
    if len(key_values) == len(change.key_columns):
        block.key_values = key_values


def _fill_message(block: Block, message: Mapping[str, object]) -> None:
    block.table = str(message.get("prefix", ""))
    content = message.get("content")
    if content is None and "content_base64" in message:
        size = len(str(message["content_base64"])) * 3 // 4
        block.content = Cell(f"{bytes_words(size)} that are not text", "marked")
    elif isinstance(content, Mapping):
        marks = ("$cut", "$aside", "$too_large")
        size = int(next((content[mark] for mark in marks if mark in content), 0))
        block.content = cell(content, "new")
    else:
        size = len(str(content or "").encode())
        block.content = cell(str(content or ""), "new", json=size > 80)
    kind = "transactional" if message.get("transactional", True) else "not transactional"
    block.words = f"{kind}, {bytes_words(size)}"


def _fill_truncate(block: Block, options: Mapping[str, object]) -> None:
    parts = ["every row removed; the server does not say which or how many"]
    parts += ["CASCADE"] if options.get("cascade") else []
    parts += ["RESTART IDENTITY"] if options.get("restart_identity") else []
    block.words = ", ".join(parts)
