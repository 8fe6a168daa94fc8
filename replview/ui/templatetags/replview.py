"""Template tags for components and words, and for what the current account may open.

Components are icons, chips, operations, states, times and values to copy.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.template.base import Parser, TextNode, Token, token_kwargs
from django.template.loader_tags import IncludeNode
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import smart_split

from replview.access.page import page_named
from replview.access.rights import Role, role_of
from replview.catalog.server import unreported_facts
from replview.health.states import WORDS, Level
from replview.text import formats as words
from replview.text.addresses import slot_page_url, stream_url
from replview.text.problem import split_remedy
from replview.ui.component_html import (
    chip_html,
    clock_html,
    copy_html,
    health_html,
    op_html,
    state_html,
    time_html,
)
from replview.ui.retention_text import kept_words, slot_forecast_words
from replview.ui.slot_log import kind_of

register = template.Library()

KEY_WORDS = re.compile(
    r"\b(ALTER|CREATE|DROP|GRANT|REVOKE|SELECT|FROM|WHERE|AND|OR|IN|ON|TO|FOR|SET|WITH|ROLE|SYSTEM|"
    r"PUBLICATION|REPLICATION|TABLE|TABLES|ALL|ADD|REPLICA|IDENTITY|FULL|USING|INDEX|LOGIN|"
    r"PASSWORD|COMMIT|ROLLBACK|PREPARED|DATABASE|SCHEMA|USAGE|VACUUM|ONLY)\b"
)


@register.simple_tag
def icon(name: str, size: str = "16") -> SafeString:
    """Return ``{% icon "copy" %}``: a symbol of ``components/icons.svg``; sizes 14, 16, 20."""
    extra = "" if str(size) == "16" else f" icon-{size}"
    return format_html(
        '<svg class="icon{}" aria-hidden="true"><use href="#i-{}"/></svg>', extra, name
    )


@register.simple_tag
def health_icon(level: str) -> SafeString:
    """Return the shape of a health level without its word, which must stand beside it."""
    return format_html(
        '<svg class="icon health-{0}" aria-hidden="true"><use href="#i-health-{0}"/></svg>', level
    )


@register.simple_tag
def event_icon(kind: str) -> SafeString:
    """Return the symbol of a line in a slot's log."""
    log_kind = kind_of(kind)
    tone = f"health-{log_kind.tone}" if log_kind.symbol.startswith("health-") else "quiet"
    return format_html(
        '<svg class="icon icon-14 {}" aria-hidden="true"><use href="#i-{}"/></svg>',
        tone,
        log_kind.symbol,
    )


@register.simple_tag
def event_word(kind: str) -> str:
    """Return the word of a kind of line: ``re-sent``."""
    return kind_of(kind).word


# Usage: ``{% health "now" %}``, ``{% state "rolled back" %}``, ``{% op "I" 3 %}``,
# ``{% chip word %}``, ``{% copy row.xid "xid" %}``.
register.simple_tag(health_html, name="health")
register.simple_tag(state_html, name="state")
register.simple_tag(op_html, name="op")
register.simple_tag(chip_html, name="chip")
register.simple_tag(copy_html, name="copy")
register.simple_tag(clock_html, name="clock")


@register.simple_tag
def lsn(value: object, plain: bool = False) -> SafeString:
    """Return an LSN to copy: ``{% lsn slot.checkpoint_lsn %}``."""
    return copy_html(value, "LSN", plain=plain)


@register.simple_tag
def second(moment: datetime) -> SafeString:
    """Return a time to the second: ``07:57:11``."""
    return time_html(moment, "second", f"{moment:%H:%M:%S}")


@register.simple_tag
def ago(moment: datetime) -> SafeString:
    """Return ``2 s ago``, which the browser keeps counting."""
    return time_html(moment, "ago", f"{words.age_words(timezone.now() - moment)} ago")


@register.tag
def include_with(parser: Parser, token: Token) -> IncludeNode:
    """Parse ``{% include %}`` with arguments between the tags, on lines of their own.

    This is for many or long arguments, because Django allows no line end inside a tag. Line ends
    in a string count as spaces.
    """
    tag, path, *options = token.split_contents()
    body = parser.parse(("end_include_with",))
    parser.delete_first_token()
    if options not in ([], ["only"]) or not all(isinstance(node, TextNode) for node in body):
        raise template.TemplateSyntaxError(f"{tag} takes a template, 'only', then name=value")
    bits = list(smart_split(" ".join(node.s for node in body if isinstance(node, TextNode))))
    bits = [" ".join(bit.split()) for bit in bits]
    arguments = token_kwargs(bits, parser)
    if bits:
        raise template.TemplateSyntaxError(f"{tag} does not understand {bits[0]!r}")
    return IncludeNode(
        parser.compile_filter(path), extra_context=arguments, isolated_context=bool(options)
    )


@register.simple_tag
def now_iso() -> str:
    """Return the server's time, from which browsers with a wrong clock count ages."""
    return timezone.now().isoformat()


@register.filter
def health_word(level: str) -> str:
    """Return the word of a health level: ``needs a look``."""
    return WORDS[Level(level)]


def _or_unknown(format_: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "unknown" if value is None else format_(value)


# These filters write ``32.2 GB``, ``2,318,644``, ``23 tx/s``, or ``unknown`` for None.
register.filter("bytes", _or_unknown(words.bytes_words))
register.filter("count", _or_unknown(words.count_words))
register.filter("rate", _or_unknown(words.rate_words))


@register.filter
def age(value: datetime | timedelta | float | None) -> str:
    """Return ``9 h 12 min`` for a time or a duration, or ``unknown`` for None."""
    if value is None:
        return "unknown"
    return words.age_words(timezone.now() - value if isinstance(value, datetime) else value)


register.filter("version", words.version_words)
# This lists what a source of this version does not report; empty where it reports all.
register.filter("unreported_facts", unreported_facts)
register.filter("remedy", split_remedy)
# These write ``for 30 days, and at most 50 GB``, and the forecast of a slot's record.
register.filter("keeps", kept_words)
register.filter("goes_to", slot_forecast_words)
# These are the addresses of a slot's live page and of its own page.
register.simple_tag(stream_url, name="slot_url")
register.simple_tag(slot_page_url, name="slot_page")


@register.simple_tag
def sql_words(text: str) -> SafeString:
    """Return SQL with its keywords marked, or a replview command unchanged; all is escaped."""
    parts = [text] if text.startswith("replview ") else KEY_WORDS.split(text)
    return format_html_join(
        "",
        "{}",
        (
            (format_html('<span class="word">{}</span>', part) if number % 2 else part,)
            for number, part in enumerate(parts)
        ),
    )


@register.filter
def option(value: object) -> str:
    """Return an option of pgoutput as START_REPLICATION spells it: ``on``, ``off``, ``4``."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


# Pages do not offer what would be refused: they read the same ``@page`` as the guard. A link is
# left out (``permits``); a button whose absence would confuse is disabled, with the reason
# (``needs``).


def lacking(context: object, name: str, method: str) -> Role | None:
    """Return the role that the account lacks for an address; None where it may open it."""
    page = page_named(name, method)
    if page is None:
        raise LookupError(f"nothing says who may open the address {name}")
    needed = page.role_for(method)
    if not isinstance(needed, Role):
        return None
    # The context of an include or an inclusion tag lacks the request's variables, but has this.
    request = getattr(context, "request", None)
    has = role_of(getattr(request, "user", None))
    return needed if has is None or has < needed else None


@register.simple_tag(takes_context=True)
def needs(context: dict[str, Any], name: str) -> str:
    """Return the attributes that disable a button to an address, with the reason; may be empty."""
    role = lacking(context, name, "POST")
    return "" if role is None else disabled(f"needs the role {role.word}")


@register.simple_tag(takes_context=True)
def permits(context: dict[str, Any], name: str) -> bool:
    """Return whether this account may follow a link to the address of this name."""
    return lacking(context, name, "GET") is None


def disabled(why: str) -> SafeString:
    """Return the attributes of a disabled button."""
    return format_html(' disabled title="{}"', why)
