"""Erase values outside the record: quarantined messages, saved filters, peeks, results of jobs.

Whatever names an erased key is deleted as a whole, and counted.
"""

import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db.models.functions import Now

from replview.access.withheld import is_erased_text
from replview.features.erasure import actor as erased_actor
from replview.features.erasure.rows import FoundChange
from replview.store.django_session import rows
from replview.store.models import Export, HistoryJob, Quarantine, SavedFilter, Slot, SlotPeek
from replview.store.read.row_history.keys import KeyProblem, parse_key
from replview.store.read.row_history.trails import Key
from replview.targets.policy import read_policy

#: Least number of characters of a text that is searched for inside others.
SHORTEST_TEXT = 4
_NAMED_BY = """
    SELECT DISTINCT f.id
    FROM unnest(%(filters)s::bigint[], %(texts)s::text[]) AS f (id, text),
         unnest(%(ids)s::bigint[], %(seqs)s::int[]) AS w (id, seq)
         JOIN change c ON c.transaction_id = w.id AND c.seq = w.seq,
         LATERAL (SELECT * FROM jsonb_each_text(c.old)
                  UNION ALL SELECT * FROM jsonb_each_text(c.new)) e
    WHERE c.transaction_id BETWEEN %(low)s AND %(high)s
      AND length(e.value) >= %(telling)s AND position(lower(e.value) IN lower(f.text)) > 0
      AND (%(all)s OR e.key = ANY(%(columns)s::text[]))
"""
FILTERS = "saved filters"
MESSAGES = "quarantined messages"
LOOKS = "looks into slots"
RESULTS = "results of history jobs"


def filters_naming(slot: Slot, table: str, keys: Collection[Key]) -> set[int]:
    """Return the ids of saved filters that name one of the keys."""
    texts = {text for key in keys for _, text in key if text}
    telling = {text.casefold() for text in texts if len(text) >= SHORTEST_TEXT}
    found = set()
    for row, words in erased_actor.filters_of(slot):
        values = [text for name, text in words.items() if name not in ("slot", "tables", "table")]
        other = " ".join([row.name, *values]).casefold()
        of_table = table in (words.get("tables", ""), words.get("table", table))
        if any(text in other for text in telling) or (of_table and _names_key(words, keys, texts)):
            found.add(row.pk)
    return found


def _names_key(words: dict[str, str], keys: Collection[Key], texts: Collection[str]) -> bool:
    if any(name.startswith("key.") and value in texts for name, value in words.items()):
        return True
    for key in keys:
        with suppress(KeyProblem):
            if parse_key(words.get("key", ""), [n for n, _ in key]) == dict(key):
                return True
    return False


def searching_filters(slot: Slot) -> list[tuple[int, str]]:
    """Return id and text of saved filters that search for a text."""
    texts = [
        (row.pk, " ".join([row.name, words.get("q", ""), words.get("where", "")]).strip())
        for row, words in erased_actor.filters_of(slot)
    ]
    return [(pk, text) for pk, text in texts if text]


def filters_with_values(
    filters: Sequence[tuple[int, str]], page: Sequence[FoundChange], columns: Sequence[str]
) -> set[int]:
    """Return the ids of these filters whose text contains a value of the changes."""
    if not filters or not page:
        return set()
    ids = [each.transaction_id for each in page]
    wanted: dict[str, Any] = {
        "filters": [pk for pk, _ in filters],
        "texts": [text for _, text in filters],
        "ids": ids,
        "seqs": [each.seq for each in page],
        "low": min(ids),
        "high": max(ids),
        "telling": SHORTEST_TEXT,
        "all": not columns,
        "columns": list(columns),
    }
    return {pk for (pk,) in rows(_NAMED_BY, wanted)}


def delete_filters(identifiers: Collection[int]) -> int:
    """Delete saved filters; return how many."""
    return SavedFilter.objects.filter(pk__in=identifiers).delete()[0]


def raw_messages(slot: Slot, tables: Collection[str], keys: Collection[Key]) -> list[int]:
    """Return quarantined messages that hold one of the keys; binary ones always count."""
    texts = {text.encode() for key in keys for _, text in key if text}
    telling = [text for text in texts if len(text) >= SHORTEST_TEXT]
    found = []
    for row in Quarantine.objects.filter(slot=slot).defer("raw"):
        of_table = row.relation in tables
        if of_table and (slot.options or {}).get("binary"):
            found.append(row.pk)
            continue
        holding = (
            "SELECT FROM quarantine q, unnest(%s::bytea[]) AS t (text)"
            " WHERE q.id = %s AND position(t.text IN q.raw) > 0 LIMIT 1"
        )
        if rows(holding, [list(texts if of_table else telling), row.pk]):
            found.append(row.pk)
    return found


def peeks_at(slot: Slot, tables: Collection[str], actor: str) -> set[int]:
    """Return peeks at the source's slots that show changes of the tables or name the actor."""
    found = set()
    for row in SlotPeek.objects.filter(source=slot.source_id, result__isnull=False):
        if actor and erased_actor.is_named(actor, row.result):
            found.add(row.pk)
        for each in (row.result or {}).get("first_changes") or []:
            if f"{each.get('schema')}.{each.get('table')}" in tables or each.get("table") in tables:
                found.add(row.pk)
    return found


def job_results(slot: Slot, tables: Collection[str]) -> list[tuple[int, str]]:
    """Return id and output folder of history jobs whose stored rows are of the tables."""
    found = []
    for row in HistoryJob.objects.filter(result__isnull=False):
        named = str(row.words.get("table") or "")
        incarnation = str(row.words.get("incarnation") or "")
        mine = not incarnation or incarnation.rpartition("-")[0] == str(slot)
        if mine and named in tables and (row.output or (row.result or {}).get("rows")):
            found.append((row.pk, row.output))
    return found


def empty_results(identifiers: Collection[int]) -> int:
    """Delete the rows of history jobs, and keep the jobs."""
    nothing = {
        "columns": [], "rows": [], "more": False, "complete": False,
        "reasons": ["its rows were deleted when a person was erased: run it again"], "details": {},
    }  # fmt: skip
    return HistoryJob.objects.filter(pk__in=identifiers).update(result=nothing, output="")


@dataclass(frozen=True, slots=True)
class RelatedRows:
    """Data outside the record that may hold the erased values."""

    slot: Slot
    #: Table → the keys its rows had.
    keys: Mapping[str, Collection[Key]]
    #: Name of the actor; empty if none is erased.
    actor: str

    def found(self) -> dict[str, set[int]]:
        """Return the ids of affected rows by kind."""
        filters, messages = set[int](), set[int]()
        for name, keys in self.keys.items():
            filters |= filters_naming(self.slot, name, keys)
            messages |= set(raw_messages(self.slot, [name], keys))
        if self.actor:
            filters |= erased_actor.filters_naming(self.slot, self.actor)
        looks = peeks_at(self.slot, self.keys, self.actor)
        return {FILTERS: filters, MESSAGES: messages, LOOKS: looks, RESULTS: self._jobs()}

    def erase(self, found: Mapping[str, set[int]]) -> dict[str, int]:
        """Erase these rows; return the count by kind.

        A quarantined message's row and its decision stay; a slot that is still stopped receives the
        message from its source again.
        """
        return {
            FILTERS: delete_filters(found[FILTERS]),
            MESSAGES: Quarantine.objects.filter(pk__in=found[MESSAGES]).update(raw=b""),
            LOOKS: SlotPeek.objects.filter(pk__in=found[LOOKS]).delete()[0],
            RESULTS: self.erase_results(),
        }

    def erase_results(self) -> int:
        """Delete the tables' rows from results of history jobs, including recent ones."""
        jobs = self._jobs()
        # Delete output files only inside the instance's own folder.
        own = read_policy().root.resolve() / "history-jobs"
        for output in HistoryJob.objects.filter(pk__in=jobs).values_list("output", flat=True):
            if output and Path(output).resolve().is_relative_to(own):
                shutil.rmtree(output, ignore_errors=True)
        return empty_results(jobs)

    def _jobs(self) -> set[int]:
        found = {pk for pk, _ in job_results(self.slot, list(self.keys))}
        return found | (set(erased_actor.results_naming(self.actor)) if self.actor else set())


# A text that limited an export may name an erased row or hold one of its values. The record keeps
# that a text limited the export, but a text with a key or a value becomes ``erased text 7``.

#: Kind of these texts in the counts.
TEXTS = "texts that narrowed exports"


def texts_of(slot: Slot) -> list[tuple[int, str]]:
    """Return id and text of exports that are limited by a text."""
    rows = Export.objects.filter(slot=slot).values_list("pk", "words", "slice")
    texts = [(pk, _text(part) or str(words.get("q") or "")) for pk, words, part in rows]
    return [(pk, text) for pk, text in texts if text and not is_erased_text(text)]


def texts_naming(texts: Sequence[tuple[int, str]], keys: Collection[Key]) -> set[str]:
    """Return those texts that equal a key or contain one."""
    values = {value.casefold() for key in keys for _, value in key if value}
    return {
        text
        for _, text in texts
        if text.casefold() in values
        or any(len(value) >= SHORTEST_TEXT and value in text.casefold() for value in values)
    }


def texts_holding(
    texts: Sequence[tuple[int, str]], page: Sequence[FoundChange], columns: Sequence[str]
) -> set[str]:
    """Return those texts that contain a value of the changes."""
    found = filters_with_values(texts, page, columns)
    return {text for pk, text in texts if pk in found}


def clear_texts(slot: Slot, texts: Collection[str], new: str) -> int:
    """Replace the texts by ``new`` in the records of exports; return how many exports.

    An export that waits is failed, since it would search for the text. The function can be repeated
    to catch what a running job wrote back.
    """
    done = 0
    rows = Export.objects.filter(slot=slot) if texts else Export.objects.none()
    for row in rows:
        before = row.words.get("q"), _text(row.slice), _text((row.result or {}).get("slice"))
        if not {*before} & {*texts}:
            continue
        done += 1
        if row.words.get("q") in texts:
            row.words["q"] = new
        erased_actor.slice_anew(
            row,
            lambda part: (
                {**part, "narrowed": {**part["narrowed"], "text": new}}
                if _text(part) in texts
                else part
            ),
        )
        Export.objects.filter(pk=row.pk, state=Export.State.WAITING).update(
            state=Export.State.FAILED, finished_at=Now(),
            problem_cause="its text filter was erased", problem_remedy="Create a new export",
        )  # fmt: skip
    return done


def _text(part: dict[str, Any] | None) -> str:
    return str(((part or {}).get("narrowed") or {}).get("text") or "")
