"""The smallest components as HTML, written here: a page of a list has hundreds of them, and as
templates each cost ten times as much. Everything that is not a constant is escaped.
"""

from datetime import datetime
from functools import lru_cache

from django.utils.html import format_html
from django.utils.safestring import SafeString

from replview.health.states import WORDS, Level
from replview.store.read.changes.records import OPERATIONS as OPERATIONS
from replview.text.formats import count_words

OPERATIONS_MANY = {
    "I": "inserts",
    "U": "updates",
    "D": "deletes",
    "T": "truncates",
    "M": "messages",
    "S": "snapshots (of baselines)",
}
#: Words of a small vocabulary, with numbers: drawn once.
_KEPT = 4096
_HIDDEN = SafeString(' class="visually-hidden"')
#: By the keyboard, too, its other form can be had.
_FOCUSED = SafeString(' tabindex="0"')
#: Forms of an age, which the browser counts on.
_COUNTED = ("ago", "age")


def health_html(level: str) -> SafeString:
    return format_html(
        '<span class="health health-{0}"><svg class="icon" aria-hidden="true">'
        '<use href="#i-health-{0}"/></svg><span>{1}</span></span>',
        level,
        WORDS[Level(level)],
    )


@lru_cache(_KEPT)
def state_html(value: str, *, wordless: bool = False) -> SafeString:
    """A transaction's state: shape and word; ``wordless`` keeps the word as a label alone."""
    return format_html(
        '<span class="state state-{0}"><svg class="icon" aria-hidden="true">'
        '<use href="#i-state-{0}"/></svg><span{1}>{2}</span></span>',
        value.replace(" ", "-"),
        _HIDDEN if wordless else "",
        value,
    )


@lru_cache(_KEPT)
def op_html(letter: str, number: int | None = None) -> SafeString:
    """An operation's letter in its tile, then how many."""
    return format_html(
        '<span class="op op-{0}"><b title="{1}" aria-hidden="true">{0}</b>'
        '<span class="visually-hidden">{1} </span>{2}</span>',
        letter,
        OPERATIONS.get(letter, "operation"),
        "" if number is None else format_html("<span>{}</span>", count_words(number)),
    )


@lru_cache(_KEPT)
def grade_kind(grade: str | None) -> str:
    """A chip's kind: how well an actor is known."""
    return {"claimed": "claim", "stamped": "fact"}.get(grade or "", "unknown")


def chip_html(word: str, kind: str = "fact") -> SafeString:
    """A chip; ``kind``: ``fact`` (solid), ``claim`` (dashed), ``unknown``, ``plain``."""
    return format_html('<span class="chip chip-{}">{}</span>', kind, word)


def copy_html(value: object, name: str = "", plain: bool = False, cut: bool = False) -> SafeString:
    """A value that copies on click; ``cut`` shows its end where the place is short."""
    return format_html(
        '<button class="copy{}{}" type="button" data-copy="{}" data-tip="{}" '
        'aria-label="{} {}: copy">{}</button>',
        " plain" if plain else "",
        " copy-start" if cut else "",
        value,
        value if cut else "Copy",
        name,
        value,
        format_html("<bdi>{}</bdi>", value) if cut else value,
    )


def time_html(moment: datetime, form: str, text: str) -> SafeString:
    """A moment, written anew by the browser in its own zone; ``form``: how (see ``times.js``)."""
    return format_html(
        '<time datetime="{}" data-time="{}"{}>{}</time>',
        moment.isoformat(),
        form,
        "" if form in _COUNTED else _FOCUSED,
        text,
    )
