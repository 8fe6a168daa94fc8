"""Erase an actor's name: replace it by ``erased actor 7`` in all records.

The actions of one person stay distinguishable from others, since all get the same new name.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl

import orjson
from django.db import connection, transaction
from psycopg import sql

from replview.parquet.erasure.renaming import quoted, renamed
from replview.store.django_session import rows
from replview.store.models import Export, HistoryJob, SavedFilter, Slot, SlotIncarnation
from replview.store.sums.activity import ADDED_TO_ACTOR

#: Transactions changed in one transaction of the store.
_PAGE = 1_000
_NAMING = sql.SQL("""
    SELECT id, actor, context FROM transaction
    WHERE id > %(after)s AND incarnation_id = ANY(%(incarnations)s)
      AND (actor = %(name)s OR position(%(name)s IN context::text) > 0
           OR jsonb_path_query_array(actors, '$.actor') ? %(name)s
           OR position(%(quoted)s IN context::text) > 0)
    ORDER BY id LIMIT {page}
""").format(page=_PAGE)
_MESSAGES = """
    UPDATE change SET new = new - 'content_base64' || jsonb_build_object('content', %(mark)s::jsonb)
    WHERE transaction_id = ANY(%(ids)s) AND transaction_id BETWEEN %(low)s AND %(high)s
      AND op = 'M' AND (position(%(name)s IN new->>'content') > 0
                        OR position(%(quoted)s IN new->>'content') > 0)
"""
_RENAMED = """
    UPDATE transaction SET actor = %s, context = %s::jsonb, actors = replace(actors::text,
        '"actor": ' || to_json(%s::text)::text, '"actor": ' || to_json(%s::text)::text)::jsonb
    WHERE id = %s
"""
_MARKS = "SELECT FROM activity_mark WHERE incarnation_id = ANY(%(incarnations)s) FOR UPDATE"
# An earlier try may have left sums under the new name.
_SUMS = sql.SQL("""
    WITH former AS (
        DELETE FROM actor_activity WHERE actor = %(name)s AND incarnation_id = ANY(%(incarnations)s)
        RETURNING *)
    INSERT INTO actor_activity AS mine
        (incarnation_id, actor, day, relation_id, grade, transactions, inserts, updates, deletes,
         truncates, messages, first_time, last_time)
    SELECT incarnation_id, %(new)s, day, relation_id, grade, transactions, inserts, updates,
           deletes, truncates, messages, first_time, last_time FROM former
    {added_to_actor}
""").format(added_to_actor=sql.SQL(ADDED_TO_ACTOR))


def alias(erasure_id: int) -> str:
    """Return the name that replaces an erased actor."""
    return f"erased actor {erasure_id}"


def count(slot: Slot, name: str) -> int:
    """Return the number of transactions that name the actor."""
    return sum(len(page) for page in _pages(slot, name))


def erase(slot: Slot, name: str, new: str, mark: dict[str, Any]) -> int:
    """Rename the actor in transactions, messages and sums; return the number of transactions."""
    done = 0
    for page in _pages(slot, name):
        with transaction.atomic(), connection.cursor() as cursor:
            for identifier, actor, context in page:
                if context is not None:
                    context = orjson.dumps(renamed(orjson.loads(context), name, new)).decode()
                values = [new if actor == name else actor, context, name, new, identifier]
                cursor.execute(_RENAMED, values)
            ids = [row[0] for row in page]
            named = {"name": name, "quoted": quoted(name), "mark": orjson.dumps(mark).decode()}
            cursor.execute(_MESSAGES, {"ids": ids, "low": min(ids), "high": max(ids), **named})
        done += len(page)
    wanted: dict[str, Any] = {"name": name, "new": new, "incarnations": _incarnations(slot)}
    with transaction.atomic(), connection.cursor() as cursor:
        # Summing up holds this lock, and may have read the old name before.
        cursor.execute(_MARKS, wanted)
        cursor.execute(_SUMS, wanted)
    return done


def _pages(slot: Slot, name: str) -> Iterator[list[tuple[Any, ...]]]:
    wanted: dict[str, Any] = {
        "incarnations": _incarnations(slot),
        "name": name,
        "quoted": quoted(name),
    }
    after = 0
    while page := rows(_NAMING, {**wanted, "after": after}):
        after = page[-1][0]
        yield page


def _incarnations(slot: Slot) -> list[int]:
    return list(SlotIncarnation.objects.filter(slot=slot).values_list("pk", flat=True))


def filters_naming(slot: Slot, name: str) -> set[int]:
    """Return the ids of saved filters that name the actor."""
    return {
        row.pk
        for row, words in filters_of(slot)
        if name in (words.get("actor"), row.name) or name in words.get("q", "")
    }


def filters_of(slot: Slot) -> Iterator[tuple[SavedFilter, dict[str, str]]]:
    """Yield saved filters of the slot, or of no particular slot, with their parameters."""
    for row in SavedFilter.objects.all():
        words = dict(parse_qsl(row.query))
        if words.get("slot") in (None, str(slot)):
            yield row, words


def exports_naming(slot: Slot, name: str) -> list[Export]:
    """Return exports that are limited to the actor, or by a text that contains the name."""
    return [
        row
        for row in Export.objects.filter(slot=slot)
        if name in (row.slice.get("actors") or [])
        or name in (row.slice.get("narrowed") or {}).get("text", "")
    ]


def rename_exports(rows: Iterable[Export], name: str, new: str) -> None:
    """Replace the name in the records of exports."""
    for row in rows:
        of_it = {word: row.words[word] for word in ("actor", "q") if word in row.words}
        row.words |= renamed(of_it, name, new)
        slice_anew(row, lambda part: _slice_renamed(part, name, new))


def slice_anew(row: Export, changed: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Save an export's record with another slice, also in its manifest."""
    row.slice = changed(row.slice)
    if row.result and "slice" in row.result:
        row.result = {**row.result, "slice": changed(row.result["slice"])}
    row.save(update_fields=["slice", "words", "result"])


def _slice_renamed(part: dict[str, Any], name: str, new: str) -> dict[str, object]:
    """Replace the name where it stands for the actor; slot and tables may have the same name."""
    actors = [new if each == name else each for each in part.get("actors") or []]
    narrowed = dict(part.get("narrowed") or {})
    if "text" in narrowed:
        narrowed["text"] = renamed(narrowed["text"], name, new)
    return {**part, "actors": actors, **({"narrowed": narrowed} if narrowed else {})}


def results_naming(name: str) -> list[int]:
    """Return the ids of history jobs whose results contain the name."""
    rows = HistoryJob.objects.filter(result__isnull=False)
    return [row.pk for row in rows if is_named(name, row.result)]


def is_named(name: str, document: object) -> bool:
    """Return whether a JSON document contains the name."""
    return quoted(name) in orjson.dumps(document).decode()
