"""Words of the steps that add a source."""

from django import template

from replview.ui import plan_text as browser_words

register = template.Library()


@register.filter
def sentence(text: str) -> str:
    """Begun with a capital letter, unless its first word is a name: ``max_slot_wal_keep_size``."""
    return browser_words.sentence(text)
