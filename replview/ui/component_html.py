"""Write the smallest components as HTML, because a list has hundreds of them.

As templates each would take ten times as long. Everything that is not a constant is escaped.
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
#: The size of each cache of a component's HTML.
_CACHE_SIZE = 4096
_HIDDEN = SafeString(' class="visually-hidden"')
#: Makes the element focusable, so that the keyboard shows its other form.
_FOCUSED = SafeString(' tabindex="0"')
#: Forms of an age, which the browser keeps counting.
_COUNTING_FORMS = ("ago", "age")


def health_html(level: str) -> SafeString:
    """Return the shape and word of a health level."""
    return format_html(
        '<span class="health health-{0}"><svg class="icon" aria-hidden="true">'
        '<use href="#i-health-{0}"/></svg><span>{1}</span></span>',
        level,
        WORDS[Level(level)],
    )


@lru_cache(_CACHE_SIZE)
def state_html(value: str, *, wordless: bool = False) -> SafeString:
    """Return a transaction's state, as shape and word; ``wordless`` hides the word visually."""
    return format_html(
        '<span class="state state-{0}"><svg class="icon" aria-hidden="true">'
        '<use href="#i-state-{0}"/></svg><span{1}>{2}</span></span>',
        value.replace(" ", "-"),
        _HIDDEN if wordless else "",
        value,
    )


@lru_cache(_CACHE_SIZE)
def op_html(letter: str, number: int | None = None) -> SafeString:
    """Return an operation's letter in its tile, then the number."""
    return format_html(
        '<span class="op op-{0}"><b title="{1}" aria-hidden="true">{0}</b>'
        '<span class="visually-hidden">{1} </span>{2}</span>',
        letter,
        OPERATIONS.get(letter, "operation"),
        "" if number is None else format_html("<span>{}</span>", count_words(number)),
    )


@lru_cache(_CACHE_SIZE)
def grade_kind(grade: str | None) -> str:
    """Return a chip's kind, which shows how an actor is known."""
    return {"claimed": "claim", "stamped": "fact"}.get(grade or "", "unknown")


def chip_html(word: str, kind: str = "fact") -> SafeString:
    """Return a chip; ``kind``: ``fact`` (solid), ``claim`` (dashed), ``unknown``, ``plain``."""
    return format_html('<span class="chip chip-{}">{}</span>', kind, word)


def copy_html(value: object, name: str = "", plain: bool = False, cut: bool = False) -> SafeString:
    """Return a value that copies on click; ``cut`` shows its end where space is short."""
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
    """Return a time that the browser rewrites in its own zone; for ``form`` see ``times.js``."""
    return format_html(
        '<time datetime="{}" data-time="{}"{}>{}</time>',
        moment.isoformat(),
        form,
        "" if form in _COUNTING_FORMS else _FOCUSED,
        text,
    )


def clock_html(moment: datetime) -> SafeString:
    """Return ``07:57:11.969``; the browser adds the date unless it is today, and UTC on hover."""
    return time_html(moment, "clock", f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}")
