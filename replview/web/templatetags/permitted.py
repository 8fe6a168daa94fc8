"""What a page says of a button that this account may not use."""

from typing import Any

from django import template
from django.utils.html import format_html

from replview.store.rights import Role, role_of
from replview.web.allowed import role_for

register = template.Library()


def _lacking(context: dict[str, Any], name: str) -> Role | None:
    request = context.get("request")
    needed = role_for(name, "POST")
    if request is None or not isinstance(needed, Role):
        return None
    has = role_of(request.user)
    return needed if has is None or has < needed else None


@register.simple_tag(takes_context=True)
def needs(context: dict[str, Any], name: str) -> str:
    """Attributes of a button that leads to the address of that name: disabled, with the reason."""
    lacking = _lacking(context, name)
    if lacking is None:
        return ""
    return format_html(' disabled title="needs the role {}"', lacking.word)


@register.simple_tag(takes_context=True)
def permits(context: dict[str, Any], name: str) -> bool:
    """Whether this account may follow a link to the address of that name."""
    return _lacking(context, name) is None
