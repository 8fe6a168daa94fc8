"""The columns of one change: which differ, which stayed, which the server did not send."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from replview.store.read.changes.values import same_value
from replview.store.read.rows import ChangeRow
from replview.ui.changes.cells import Block, Cell, Line, cell
from replview.ui.changes.json_lines import compared
from replview.ui.changes.text_diff import text_diff

#: Columns of an insert or delete shown before the rest is folded.
_SHOWN = 8
#: Columns drawn of one change, and of a page; the others are named.
_MOST_LINES = 60
_MOST_LINES_ALL = 2_000
#: Texts shorter than this stand whole, before and after.
_LONG_TEXT = 60
_SHORT_TYPES = [
    (re.compile(long), short)
    for long, short in (
        (r"timestamp(\(\d\))? with time zone", "timestamptz"),
        (r"timestamp(\(\d\))? without time zone", "timestamp"),
        (r"time(\(\d\))? with time zone", "timetz"),
        (r"time(\(\d\))? without time zone", "time"),
        (r"character varying(\(\d+\))?", "varchar"),
        (r"character(\(\d+\))", "char"),
    )
]


@dataclass(slots=True)
class Sheet:
    """What a page still has room for."""

    all_columns: bool = False
    #: Characters that may still be compared by word or line.
    characters: int = 400_000
    lines: int = 6_000

    @property
    def most_lines(self) -> int:
        """Columns that the next block may draw."""
        return max(8, min(_MOST_LINES_ALL if self.all_columns else _MOST_LINES, self.lines))


def _columns(change: ChangeRow, *images: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and types in the table's order, then whatever else an image holds."""
    known = [(str(c["name"]), short_type(str(c.get("type") or ""))) for c in change.columns]
    names = {name for name, _ in known}
    extra = [(name, "") for image in images for name in image if name not in names]
    return known + list(dict.fromkeys(extra))


def short_type(name: str) -> str:
    """``timestamptz(3)`` for ``timestamp(3) with time zone``: as people write them."""
    for long, short in _SHORT_TYPES:
        if match := long.match(name):
            return short + (match[1] or "") + name[match.end() :]
    return name


def _is_json(type_name: str) -> bool:
    return type_name in ("json", "jsonb")


def tell_update(block: Block, change: ChangeRow, previous: Any, sheet: Sheet) -> None:
    """Before and after of what differs; what stayed is folded."""
    new, sent_old = change.new or {}, change.old or {}
    before = _before_of_update(block, change, previous)
    unknown_before = block.before in ("unknown", "key")
    #: Of a masked value nobody can say whether it changed.
    unsure = False
    for name, type_name in _columns(change, new, before):
        key = name in change.key_columns
        if name not in new:
            block.not_sent.append(name)
            continue
        json = _is_json(type_name)
        after = cell(new[name], "new", json=json)
        if name not in before:
            # Nobody knows whether it changed; the key did not, or it would have been sent.
            unknown = None if unknown_before else Cell("unknown", "unknown")
            line = Line(name, type_name, None if key else unknown, after, key=key, same=key)
            (block.folded if key else block.lines).append(line)
        elif (same := same_value(before[name], new[name])) is not False:
            unsure = unsure or same is None
            block.folded.append(Line(name, type_name, None, after, key=key, same=True))
        else:
            derived = block.before == "derived" and name not in sent_old
            was = cell(before[name], "old", derived=derived, json=json)
            differ = _differ(before[name], new[name], json, sheet)
            block.lines.append(Line(name, type_name, was, after, *differ, key=key))
    block.fold_word = "unchanged or masked" if unsure else "unchanged"
    if unknown_before and len(block.lines) > _SHOWN and not sheet.all_columns:
        block.folded, block.lines = block.lines[_SHOWN:] + block.folded, block.lines[:_SHOWN]
        block.fold_word = "more"
    _bound(block, sheet)


def _before_of_update(block: Block, change: ChangeRow, previous: Any) -> dict[str, Any]:
    sent_old = change.old or {}
    if change.old_kind == "O":
        block.before, block.before_from = "sent", f"replica identity {change.replica_identity}"
    elif previous is not None:
        block.before, block.before_from = "derived", "the server sent no old row"
        # A key the server sent outweighs what we worked out ourselves.
        return {**previous.image, **sent_old}
    else:
        block.before = "key" if sent_old else "unknown"
        block.before_from = (
            "the server sent no more of the old row, and we have no earlier change of it"
            if sent_old
            else "the server sent no old row, and we have no earlier change of it"
        )
    return dict(sent_old)


def _differ(before: Any, after: Any, json: bool, sheet: Sheet) -> tuple[Any, Any]:
    """The two by line or by word, where they are long texts and the page has room."""
    if not (isinstance(before, str) and isinstance(after, str)):
        return None, None
    size = len(before) + len(after)
    if size > sheet.characters:
        return None, None
    if json and (found := compared(before, after)) is not None:
        sheet.characters -= size
        return found, None
    if min(len(before), len(after)) < _LONG_TEXT and "\n" not in before + after:
        return None, None
    by_word = text_diff(before, after)
    if by_word is not None:
        sheet.characters -= by_word.compared
    return None, by_word


def tell_one_side(block: Block, change: ChangeRow, previous: Any, sheet: Sheet) -> None:
    """An insert or snapshot has only an after, a delete only a before."""
    deleted = change.op == "D"
    image = (change.old if deleted else change.new) or {}
    sent = set(image)
    if deleted:
        image = _before_of_delete(block, change, image, previous)
    lines = []
    for name, type_name in _columns(change, image):
        if name not in image:
            block.not_sent.append(name)
            continue
        derived = deleted and name not in sent
        side, json = "old" if deleted else "new", _is_json(type_name)
        value = cell(image[name], side, derived=derived, json=json)
        before, after = (value, None) if deleted else (None, value)
        lines.append(Line(name, type_name, before, after, key=name in change.key_columns))
    # The key stands in the block's head already.
    lines.sort(key=lambda line: line.key)
    apart = sum(line.key for line in lines)
    shown = min(_SHOWN, len(lines) - apart) or len(lines)
    block.lines, block.folded = lines[:shown], lines[shown:]
    block.fold_word = "more"
    if sheet.all_columns:
        block.lines, block.folded = lines, []
    _bound(block, sheet)


def _before_of_delete(
    block: Block, change: ChangeRow, image: Mapping[str, Any], previous: Any
) -> dict[str, Any]:
    if change.old_kind == "O":
        block.before, block.before_from = "sent", f"replica identity {change.replica_identity}"
        return dict(image)
    if previous is None:
        block.before = "key" if image else "unknown"
        block.before_from = "the server sent only the key, and we have no earlier change of the row"
        return dict(image)
    block.before, block.before_from = "derived", "the server sent only the key"
    return {**previous.image, **image}


def _bound(block: Block, sheet: Sheet) -> None:
    """No more columns than fit; the others are named."""
    if sheet.all_columns:
        order = {line.name: number for number, line in enumerate(block.lines + block.folded)}
        block.lines, block.folded = (
            sorted(block.lines + block.folded, key=lambda line: (line.same, order[line.name])),
            [],
        )
    room = sheet.most_lines
    left = block.lines[room:]
    block.lines = block.lines[:room]
    more_room = max(room - len(block.lines), 0)
    left += block.folded[more_room:]
    block.folded = block.folded[:more_room]
    block.left_out = [line.name for line in left]
    sheet.lines -= len(block.lines) + len(block.folded)
