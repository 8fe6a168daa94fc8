"""Which links and buttons a page shows to this account: what would be refused is not offered.

By the same facts that refuse (``access.page``). A link is left out (``permits``); a button
whose absence would puzzle stands there disabled, with the reason (``needs``).
"""

from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from replview.access.page import page_named
from replview.access.rights import Role, role_of

register = template.Library()


def lacking(context: Any, name: str, method: str) -> Role | None:
    """The role that the address asks for and this account has not; None: it may."""
    page = page_named(name, method)
    if page is None:
        raise LookupError(f"nothing says who may open the address {name}")
    needed = page.role_for(method)
    if not isinstance(needed, Role):
        return None
    # The context of an include or a tag of its own has no variable of the request's, but this.
    request = getattr(context, "request", None)
    has = role_of(getattr(request, "user", None))
    return needed if has is None or has < needed else None


@register.simple_tag(takes_context=True)
def needs(context: dict[str, Any], name: str) -> str:
    """Attributes of a button that leads to the address of that name: disabled, with the reason."""
    role = lacking(context, name, "POST")
    return "" if role is None else disabled(f"needs the role {role.word}")


@register.simple_tag(takes_context=True)
def permits(context: dict[str, Any], name: str) -> bool:
    """Whether this account may follow a link to the address of that name."""
    return lacking(context, name, "GET") is None


def disabled(why: str) -> SafeString:
    """Attributes of a button that does nothing, with the reason."""
    return format_html(' disabled title="{}"', why)
