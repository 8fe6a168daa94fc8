"""A name among the actors that is to be erased: it becomes ``erased actor 7`` wherever it stands.

Who did something stays told apart from others: all that one person did bears the same new name.
"""

from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import parse_qsl

import orjson
from django.db import connection, transaction

from replview.store.models import Export, HistoryJob, SavedFilter, Slot, SlotIncarnation

#: Transactions changed in one transaction of the store.
_PAGE = 1_000
_NAMING = f"""
    SELECT id, actor, context FROM transaction
    WHERE id > %(after)s AND incarnation_id = ANY(%(lives)s)
      AND (actor = %(name)s OR position(%(name)s IN context::text) > 0
           OR position(%(quoted)s IN context::text) > 0)
    ORDER BY id LIMIT {_PAGE}
"""  # noqa: S608 (of constants)
_MESSAGES = """
    UPDATE change SET new = new - 'content_base64' || jsonb_build_object('content', %(mark)s::jsonb)
    WHERE transaction_id = ANY(%(ids)s) AND transaction_id BETWEEN %(low)s AND %(high)s
      AND op = 'M' AND (position(%(name)s IN new->>'content') > 0
                        OR position(%(quoted)s IN new->>'content') > 0)
"""


def alias(erasure_id: int) -> str:
    """The name that takes its place."""
    return f"erased actor {erasure_id}"


def count(slot: Slot, name: str) -> int:
    """Transactions that name the actor."""
    return sum(len(page) for page in _pages(slot, name))


def erase(slot: Slot, name: str, new: str, mark: dict[str, Any]) -> int:
    """Transactions, their messages, and what is summed up by actor; how many transactions."""
    done = 0
    for page in _pages(slot, name):
        with transaction.atomic(), connection.cursor() as cursor:
            for identifier, actor, context in page:
                told = None if context is None else orjson.loads(context)
                cursor.execute(
                    "UPDATE transaction SET actor = %s, context = %s::jsonb WHERE id = %s",
                    [
                        new if actor == name else actor,
                        None if told is None else orjson.dumps(renamed(told, name, new)).decode(),
                        identifier,
                    ],
                )
            ids = [row[0] for row in page]
            cursor.execute(
                _MESSAGES,
                {
                    "ids": ids, "low": min(ids), "high": max(ids), "name": name,
                    "quoted": _quoted(name), "mark": orjson.dumps(mark).decode(),
                },
            )  # fmt: skip
        done += len(page)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE actor_activity SET actor = %s WHERE actor = %s AND incarnation_id = ANY(%s)",
            [new, name, _lives(slot)],
        )
    return done


def _pages(slot: Slot, name: str) -> Iterator[list[tuple[Any, ...]]]:
    wanted: dict[str, Any] = {
        "after": 0,
        "lives": _lives(slot),
        "name": name,
        "quoted": _quoted(name),
    }
    while True:
        with connection.cursor() as cursor:
            cursor.execute(_NAMING, wanted)
            page = list(cursor.fetchall())
        if not page:
            return
        wanted["after"] = page[-1][0]
        yield page


def _quoted(name: str) -> str:
    """As JSON writes it, where that is otherwise."""
    return orjson.dumps(name).decode()[1:-1]


def _lives(slot: Slot) -> list[int]:
    return list(SlotIncarnation.objects.filter(slot=slot).values_list("pk", flat=True))


def renamed(value: Any, name: str, new: str) -> Any:
    """A document without the name, wherever it is a text or a part of one."""
    if isinstance(value, str):
        return value.replace(name, new)
    if isinstance(value, dict):
        return {renamed(key, name, new): renamed(each, name, new) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each, name, new) for each in value]
    return value


def filters_naming(slot: Slot, name: str) -> set[int]:
    """Saved filters for what the actor did."""
    found = set()
    for row in SavedFilter.objects.all():
        words = dict(parse_qsl(row.query))
        named = name in (words.get("actor"), row.name) or name in words.get("q", "")
        if words.get("slot") in (None, str(slot)) and named:
            found.add(row.pk)
    return found


def exports_naming(slot: Slot, name: str) -> list[Export]:
    """Records of exports that were narrowed to the actor."""
    rows = Export.objects.filter(slot=slot)
    return [row for row in rows if name in (row.slice.get("actors") or [])]


def rename_exports(rows: Collection[Export], name: str, new: str) -> int:
    """What was taken out stays recorded, the name does not."""
    for row in rows:
        row.slice, row.words = renamed(row.slice, name, new), renamed(row.words, name, new)
        row.result = renamed(row.result, name, new)
        row.save(update_fields=["slice", "words", "result"])
    return len(rows)


def results_naming(name: str) -> list[int]:
    """History jobs in whose kept rows the name stands."""
    return [
        row.pk
        for row in HistoryJob.objects.filter(result__isnull=False)
        if _quoted(name) in orjson.dumps(row.result).decode()
    ]
