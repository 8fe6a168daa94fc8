"""Texts that exports were narrowed by: one may name a row that is erased, or hold a value of it.

That a text narrowed an export stays recorded; what it was becomes ``erased text 7``. A text goes as
a whole where a key or a value stands in it, as a saved filter does.
"""

from collections.abc import Collection, Sequence
from typing import Any

from django.db.models.functions import Now

from replview.access.withheld import is_erased_text
from replview.features.erasure.related_rows import TELLING, filters_with_values
from replview.features.erasure.rows import Found
from replview.features.erasure.trails import Key
from replview.store.models import Export, Slot

#: What of an act's counts they are.
TEXTS = "texts that narrowed exports"


def texts_of(slot: Slot) -> list[tuple[int, str]]:
    """The exports that were narrowed by one: ``(id, text)``."""
    rows = Export.objects.filter(slot=slot).values_list("pk", "words", "slice")
    texts = [(pk, _text(part) or str(words.get("q") or "")) for pk, words, part in rows]
    return [(pk, text) for pk, text in texts if text and not is_erased_text(text)]


def naming(texts: Sequence[tuple[int, str]], keys: Collection[Key]) -> set[str]:
    """Of these the ones in which a key stands, or that are one."""
    values = {value.casefold() for key in keys for _, value in key if value}
    return {
        text
        for _, text in texts
        if text.casefold() in values
        or any(len(value) >= TELLING and value in text.casefold() for value in values)
    }


def holding(
    texts: Sequence[tuple[int, str]], page: Sequence[Found], columns: Sequence[str]
) -> set[str]:
    """Of these the ones in which a value of the changes stands."""
    found = filters_with_values(texts, page, columns)
    return {text for pk, text in texts if pk in found}


def clear(slot: Slot, texts: Collection[str], new: str) -> int:
    """Put ``new`` in their place; an export that waits would look for it, and is given up. May be
    done twice: what a job that was under way wrote back goes the second time.
    """
    done = 0
    rows = Export.objects.filter(slot=slot) if texts else Export.objects.none()
    for row in rows:
        before = row.words.get("q"), _text(row.slice), _text((row.result or {}).get("slice"))
        if not {*before} & {*texts}:
            continue
        done += 1
        row.slice, words = _cleared(row.slice, texts, new), dict(row.words)
        if words.get("q") in texts:
            words["q"] = new
        row.words = words
        if row.result and "slice" in row.result:
            row.result = {**row.result, "slice": _cleared(row.result["slice"], texts, new)}
        row.save(update_fields=["slice", "words", "result"])
        Export.objects.filter(pk=row.pk, state=Export.State.WAITING).update(
            state=Export.State.FAILED, finished_at=Now(),
            problem_cause="the text that narrowed it was erased", problem_remedy="Export anew",
        )  # fmt: skip
    return done


def _text(part: dict[str, Any] | None) -> str:
    return str(((part or {}).get("narrowed") or {}).get("text") or "")


def _cleared(part: dict[str, Any], texts: Collection[str], new: str) -> dict[str, Any]:
    if _text(part) not in texts:
        return part
    return {**part, "narrowed": {**part["narrowed"], "text": new}}
