"""One erasure: follow its rows through the store and all known files, then erase them there.

The store comes first, so that nothing written from it later holds the values. The files follow once
no job that read the values before is writing. Every step can be repeated: after a crash the next
try continues from the sealed plan.
"""

import datetime as dt
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import orjson
from django.utils import timezone
from psycopg import sql

from replview.access.visibility import reading_session
from replview.access.withheld import erased_text
from replview.features.erasure import actor as erased_actor
from replview.features.erasure import queue as erasing
from replview.features.erasure import related_rows
from replview.features.erasure.files import RootState, homes_of, reach, roots_of
from replview.features.erasure.following import follow_rows, requested_spans
from replview.features.erasure.lakes import LakeProblem, erase_from_lake, stored_from
from replview.features.erasure.queue import Unerasable
from replview.features.erasure.related_rows import FILTERS, RelatedRows
from replview.features.erasure.rows import (
    ErasedCounts,
    ErasedTable,
    Eraser,
    FoundChange,
    erased_mark,
)
from replview.store.connecting import connect_store
from replview.store.django_session import rows
from replview.store.models import Erasure, Export, HistoryJob, Lake, LakeRun, Relation, Slot
from replview.store.read.row_history.keys import tables_named
from replview.store.read.row_history.trails import Key, KeySpan
from replview.text.formats import plural
from replview.text.parsing import table_text

if TYPE_CHECKING:
    from replview.parquet.erasure.finding import FileErasure
    from replview.parquet.erasure.roots import ErasureRoot

#: Seconds to wait for running exports and history jobs.
PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.5
#: Name of the record among the roots, if it has changes that cannot be found.
RECORD = "the record"


class ErasureStopped(Exception):
    """Another worker has the erasure, or this worker must stop; it is continued later."""


@dataclass(slots=True)
class Act:
    """One erasure while a worker counts or erases."""

    row: Erasure
    slot: Slot
    plan: dict[str, Any]
    #: Function that raises ``ErasureStopped`` when the work must stop.
    check: Callable[[], None]
    tables: dict[str, ErasedTable] = field(default_factory=dict)
    spans: dict[str, tuple[KeySpan, ...]] = field(default_factory=dict)
    roots: dict[str, RootState] = field(default_factory=dict)
    #: Last transaction before anything was erased; later ones were recorded since.
    newest: int = 0

    @classmethod
    def of(cls, row: Erasure, check: Callable[[], None]) -> "Act":
        """Read the erasure's plan and tables. Raises ``SecretKeyChanged`` or ``Unerasable``."""
        slot = row.slot
        if slot is None:
            raise Unerasable(
                f"slot {row.slot_name} is removed, and its record with it",
                "Its exports are not: delete them, or erase from them by hand",
            )
        act = cls(row, slot, erasing.plan_of(row), check)
        for name in row.tables:
            table = tables_named(reading_session(), slot, name)
            if table is None:
                raise Unerasable(f"table {name} is not recorded any more", "")
            act.tables[name] = ErasedTable(table)
            known = [KeySpan.from_json(span) for span in act.plan["spans"].get(name, [])]
            typed = [key for other, key in act.plan["pairs"] if other == name]
            asked = [span for key in typed for span in requested_spans(table, key)]
            act.spans[name] = (*known, *asked)
        act.roots = act.all_roots()
        return act

    def all_roots(self) -> dict[str, RootState]:
        """Return every folder, URL and lake that the slot was written to."""
        names = {name for table in self.tables.values() for name in table.all_names}
        return roots_of(self.slot, self.row, names)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns to erase; empty for all."""
        return tuple(self.plan["columns"])

    @property
    def actor(self) -> str:
        """Return the name of the actor to erase; empty for none."""
        return str(self.plan["actor"])

    @property
    def day(self) -> dt.date:
        """Return the day that marks show: the same for the whole erasure."""
        return (self.row.confirmed_at or timezone.now()).date()

    @property
    def beside(self) -> RelatedRows:
        """Return the data outside the record that may name the rows or the actor."""
        keys: dict[str, set[Key]] = {}
        for name, spans in self.spans.items():
            # Data from before a rename has the table's former name.
            for each in self.tables[name].all_names:
                keys.setdefault(each, set()).update(span.key for span in spans)
        return RelatedRows(self.slot, keys, self.actor)

    def follow(self) -> None:
        """Find every key that the rows had, and its range; store both sealed."""
        for name, table in self.tables.items():
            self._step(f"following rows of {name}")
            roots = [(state, self._root(url)) for url, state in self._asked_files()]
            opened = [(state, root) for state, root in roots if root is not None]
            self.spans[name] = follow_rows(table, opened, self.spans[name])
        state = {name: [span.to_json() for span in spans] for name, spans in self.spans.items()}
        self._keep_plan(spans=state, places=self._places())
        self._tell_unfindable()

    def _places(self) -> dict[str, list[list[int | None]]]:
        """Return the places of the rows' changes, which only the record tells until it is erased.

        A file may not have their keys, so the places are stored first.
        """
        found: dict[str, list[list[int | None]]] = {}
        for name, table in self.tables.items():
            before = self.plan.get("places", {}).get(name, [])
            places = {tuple(place) for place in before}
            for page in self._pages(name, table):
                places |= {each.in_file for each in page}
            found[name] = [list(place) for place in places]
        return found

    def _key_names(self, name: str) -> set[str]:
        """Return the columns of the requested keys, and all that were ever part of the key."""
        named = {column for span in self.spans[name] for column, _ in span.key}
        return named | {*self.tables[name].names}

    @property
    def withheld(self) -> bool:
        """Return whether a typed key is masked, so that counts would confirm guesses."""
        return any(table.withheld(self._key_names(name)) for name, table in self.tables.items())

    @property
    def _only_masked(self) -> RootState | None:
        """Return the problem if no key was ever stored, so that no row can be found."""
        tables = self.tables.items()
        if len(self.roots) != 1 or any(t.has_keys(self._key_names(name)) for name, t in tables):
            return None
        return self.roots.get(RECORD)

    def _tell_unfindable(self) -> None:
        """Add changes without a stored key to the roots, to be left out or waited for."""
        tables = self.tables.items()
        counts = {name: table.unfindable(self._key_names(name)) for name, table in tables}
        self.roots.pop(RECORD, None)
        if not any(counts.values()):
            return
        before: RootState = next((each for each in self.row.roots if each["root"] == RECORD), {})
        told = " and ".join(f"{n:,} of {name}" for name, n in counts.items() if n)
        self.roots[RECORD] = {
            **before, "root": RECORD, "what": "keys masked at ingest", "done": False,
            "problem": f"changes whose key was never stored ({told}): the row cannot be found "
            "among them",
            "remedy": "delete the days that hold them, or leave them out",
        }  # fmt: skip

    def _keep_plan(self, **more: Any) -> None:
        self.plan |= more
        if not erasing.keep_plan(self.row, self.plan):
            raise ErasureStopped

    def look(self) -> dict[str, object]:
        """Count what would be erased; ``roots`` gets the counts of files. Raises ``Unerasable``."""
        if (masked := self._only_masked) is not None:
            raise Unerasable(masked["problem"], masked["remedy"])
        if self.withheld:
            for _, root in self._asked_files():
                reach(root, lambda: None)
            return {"withheld": True}
        tally, eraser = ErasedCounts(), Eraser(self.day, self.columns, os.urandom(32))
        texts = related_rows.texts_of(self.slot)
        naming = related_rows.texts_naming(texts, self._erased_keys())
        for name, table in self.tables.items():
            self._step(f"counting changes of {name}")
            seen = set[tuple[int, int]]()
            for page in self._pages(name, table):
                # A moved row is under two keys.
                fresh = [each for each in page if (each.transaction_id, each.seq) not in seen]
                seen |= {(each.transaction_id, each.seq) for each in fresh}
                tally.add(name, fresh)
                tally.large_values += eraser.large_values(fresh)
                naming |= related_rows.texts_holding(texts, fresh, self.columns)
        beside = {name: len(found) for name, found in self.beside.found().items()}
        beside[related_rows.TEXTS] = sum(text in naming for _, text in texts)
        if self.actor:
            beside["transactions of the actor"] = erased_actor.count(self.slot, self.actor)
        for url, root in self._asked_files():
            self._step(f"looking into {root['what']}")
            reach(root, partial(self._look_into, url, root))
        if not tally.changes and (unfindable := self.roots.get(RECORD)) and len(self.roots) == 1:
            raise Unerasable(unfindable["problem"], unfindable["remedy"])
        return {**tally.to_json(), "beside": {name: n for name, n in beside.items() if n}}

    def erase_store(self) -> dict[str, object]:
        """Erase the record and the data beside it; return the counts."""
        tally, eraser = ErasedCounts(), Eraser(self.day, self.columns, os.urandom(32))
        self.newest = int(rows("SELECT coalesce(max(id), 0) FROM transaction")[0][0])
        beside, searching = self.beside.found(), related_rows.searching_filters(self.slot)
        filters, texts = 0, related_rows.texts_of(self.slot)
        self._keep_texts(related_rows.texts_naming(texts, self._erased_keys()))
        for name, table in self.tables.items():
            self._step(f"erasing changes of {name}")
            for page in self._pages(name, table):
                # Keep texts before erasing values: another try would not find them.
                self._keep_texts(related_rows.texts_holding(texts, page, self.columns))
                naming = related_rows.filters_with_values(searching, page, self.columns)
                filters += related_rows.delete_filters(naming)
                tally.large_values += eraser.erase(page, table.names)
                tally.add(name, page)
        self._step("erasing what names it")
        counts = self.beside.erase(beside)
        counts[FILTERS] += filters
        counts[related_rows.TEXTS] = self.clear_texts()
        if self.actor:
            new = erased_actor.alias(self.row.pk)
            counts["transactions of the actor"] = erased_actor.erase(
                self.slot, self.actor, new, erased_mark(self.day)
            )
            named = erased_actor.exports_naming(self.slot, self.actor)
            erased_actor.rename_exports(named, self.actor, new)
        return {**tally.to_json(), "beside": {name: n for name, n in counts.items() if n}}

    def clear_texts(self) -> int:
        """Erase texts in the records of exports, including exports that ended meanwhile."""
        new = erased_text(self.row.pk)
        return related_rows.clear_texts(self.slot, self._texts, new)

    def erase_roots(self) -> list[RootState]:
        """Erase file by file; return the roots that could not be erased.

        A root that cannot be reached is reported, and the others are erased.
        """
        # Include exports that began meanwhile and may have read values.
        self.roots = {**self.all_roots(), **self.roots}
        for url, root in self._asked_roots():
            self._step(f"erasing from {root['what']}")
            if "lake" in root:
                root["done"] = self._erase_from_lake(root)
            else:
                root["done"] = reach(root, partial(self._erase_from, url, root))
            erasing.rows.beat(self.row, roots=list(self.roots.values()))
        return [s for s in self.roots.values() if not s.get("done") and not s.get("left_out_by")]

    def count_again(self) -> str:
        """Return in words which places still hold values; empty if none."""
        self._step("counting again")
        eraser, left = Eraser(self.day, self.columns, b""), dict[str, int]()
        for name, table in self.tables.items():
            pages = (
                [one for one in page if one.transaction_id <= self.newest]
                for page in self._pages(name, table)
            )
            left[name] = sum(map(eraser.left, filter(None, pages)))
        for url, state in self._asked_files():
            self.check()
            reach(state, partial(self._count_left, url, str(state["what"]), left))
        return " and ".join(f"{plural(n, 'place')} in {what}" for what, n in left.items() if n)

    def wait_for_readers(self) -> str:
        """Wait for jobs that may have read the values; return those that still run."""
        until = time.monotonic() + PATIENCE_SECONDS
        reading = self._readers()
        while reading and time.monotonic() <= until:
            self.check()
            time.sleep(_LOOK_SECONDS)
            reading &= self._readers()
        return " and ".join(sorted(reading))

    def _readers(self) -> set[str]:
        exports = Export.objects.filter(slot=self.slot, state=Export.State.RUNNING)
        jobs = HistoryJob.objects.filter(state=HistoryJob.State.RUNNING)
        runs = LakeRun.objects.filter(lake__slot=self.slot, state=LakeRun.State.RUNNING)
        reading = {"export": exports, "history job": jobs, "run of a lake": runs}
        return {
            f"{what} {pk}"
            for what, found in reading.items()
            for pk in found.values_list("pk", flat=True)
        }

    def vacuum(self, days: Sequence[str]) -> None:
        """Vacuum the tables, since old row versions still hold the values."""
        self._step("vacuuming what was erased")
        names = [f"change_{day.replace('-', '')}" for day in days]
        names += ["large_value", "saved_filter", "quarantine", "slot_peek", "history_job"]
        names += ["transaction", "actor_activity"] if self.actor else []
        names += ["export"] if self.actor or self._texts else []
        with connect_store("replview erase") as session:
            for name in names:
                self.check()
                if session.execute("SELECT to_regclass(%s)", [name]).fetchone() != (None,):
                    session.execute(sql.SQL("VACUUM {}").format(sql.Identifier(name)))

    def wanted(self) -> "FileErasure":
        """Return the erasure in the form that files need."""
        from replview.parquet.erasure.finding import FileErasure

        oids = dict(Relation.objects.filter(slot=self.slot).values_list("pk", "oid"))
        tables: dict[int, list[KeySpan]] = {}
        names: dict[int, list[str]] = {}
        places: dict[int, set[Any]] = {}
        for name, table in self.tables.items():
            # Files contain no aborted transactions.
            spans = [span for span in self.spans[name] if span.transaction_id is None]
            for relation in table.table.relation_ids:
                tables.setdefault(oids[relation], []).extend(spans)
                shapes = table.table.shapes.versions.values()
                mine = [v for v in shapes if v.relation_id == relation]
                called = [table_text(v.schema, v.table) for v in mine]
                now = table_text(table.table.relation.schema, table.table.relation.table)
                names[oids[relation]] = list(dict.fromkeys([now, *called]))
                if name in self.plan.get("places", {}):
                    places[oids[relation]] = {tuple(place) for place in self.plan["places"][name]}
        return FileErasure(
            erasure=self.row.pk, day=self.day.isoformat(), homes=homes_of(self.slot),
            tables=tables, names=names, columns=self.columns, places=places,
            recorded=partial(_recorded, self.slot),
            actor=self.actor, alias=erased_actor.alias(self.row.pk),
            texts=dict.fromkeys(self._texts, erased_text(self.row.pk)),
        )  # fmt: skip

    def _step(self, words: str) -> None:
        self.check()
        erasing.rows.beat(self.row, step=words)

    @property
    def _texts(self) -> list[str]:
        """Return the texts of exports that name what is erased."""
        return list(self.plan.get("texts", ()))

    def _keep_texts(self, found: set[str]) -> None:
        """Store the texts sealed before the record loses them, for files and later tries."""
        texts = sorted({*self._texts, *found})
        if texts != self._texts:
            self._keep_plan(texts=texts)

    def _erased_keys(self) -> set[Key]:
        """Return the rows' keys, as far as key columns are erased."""
        return {
            span.key
            for name, spans in self.spans.items()
            if not self.columns or {*self.columns} & {*self.tables[name].names}
            for span in spans
        }

    def _asked_roots(self) -> list[tuple[str, RootState]]:
        asked = [url for url in self.roots if url != RECORD]
        return [(u, self.roots[u]) for u in asked if not self.roots[u].get("left_out_by")]

    def _asked_files(self) -> list[tuple[str, RootState]]:
        """Return the roots of files; those of lakes are Spark's."""
        return [(url, state) for url, state in self._asked_roots() if "lake" not in state]

    def _root(self, url: str) -> "ErasureRoot | None":
        from replview.parquet.erasure.roots import ErasureRoot
        from replview.parquet.writing.problems import TargetProblem

        try:
            return ErasureRoot.of(url, self.wanted())
        except TargetProblem:
            # The problem is reported when the root is opened.
            return None

    def _look_into(self, url: str, state: RootState) -> None:
        from replview.parquet.erasure.roots import ErasureRoot

        standing = ErasureRoot.of(url, self.wanted()).look()
        state |= {"files": len(standing.files), "rows": standing.rows}
        _check_findable(standing.unfindable)

    def _erase_from(self, url: str, state: RootState) -> None:
        from replview.parquet.erasure.roots import ErasureRoot

        standing = ErasureRoot.of(url, self.wanted()).erase(lambda _: self.check())
        # An earlier try may have rewritten the files.
        state |= {"files": len(standing.files), "rows": standing.rows or state.get("rows", 0)}
        _check_findable(standing.unfindable)

    def _erase_from_lake(self, state: RootState) -> bool:
        """Erase from a lake; store a problem in ``state``. Return success."""
        lake = Lake.objects.filter(pk=state["lake"]).first()
        if lake is None:
            remedy = "erase from its tables by hand, then leave it out"
            state |= {"problem": "the lake was removed", "remedy": remedy}
            return False
        by = f"erasure {self.row.pk}"
        try:
            counts = erase_from_lake(lake, self._lake_document(), self.check, by=by)
        except LakeProblem as problem:
            state |= {"problem": problem.cause, "remedy": problem.remedy}
            return False
        # An earlier try may have erased the rows.
        counts = {name: n or state.get(name, 0) for name, n in counts.items()}
        state |= {"problem": "", "remedy": "", **counts}
        return True

    def _lake_document(self) -> dict[str, Any]:
        """Return the erasure in the form that a lake's job needs."""
        tables: dict[str, dict[str, list[Any]]] = {}
        for name, table in self.tables.items():
            # A lake contains no aborted transactions.
            spans = [span for span in self.spans[name] if span.transaction_id is None]
            found = {"spans": [span.to_json() for span in spans],
                     "places": self.plan.get("places", {}).get(name, [])}  # fmt: skip
            tables |= dict.fromkeys(table.all_names, found)
        return {
            "mark": orjson.dumps(erased_mark(self.day)).decode(), "columns": self.columns,
            "actor": self.actor, "alias": erased_actor.alias(self.row.pk),
            "stored_from": stored_from(self.slot), "tables": tables,
        }  # fmt: skip

    def _count_left(self, url: str, what: str, left: dict[str, int]) -> None:
        from replview.parquet.erasure.roots import ErasureRoot

        left[what] = ErasureRoot.of(url, self.wanted()).left()

    def _pages(self, name: str, table: ErasedTable) -> Iterator[list[FoundChange]]:
        """Yield pages of all changes of the rows; a moved row's change may occur twice."""
        spans = self.spans[name]
        whole = [span.key for span in spans if span == KeySpan(span.key)]
        for page in chain(table.under(spans), *map(table.like, whole)):
            self.check()
            yield page


_RECORDED = """
    SELECT t.commit_seq FROM transaction t JOIN slot_incarnation i ON i.id = t.incarnation_id
    WHERE i.slot_id = %s AND i.number = %s AND t.commit_seq = ANY(%s)
"""


def _recorded(slot: Slot, incarnation: int, seqs: Collection[int]) -> set[int]:
    return {row[0] for row in rows(_RECORDED, [slot.pk, incarnation, list(seqs)])}


def _check_findable(unfindable: int) -> None:
    from replview.parquet.writing.problems import TargetProblem

    if unfindable:
        raise TargetProblem(
            f"the record no longer has {plural(unfindable, 'change')} whose key is masked there: "
            "the row cannot be found among them",
            "delete what was exported there, then leave it out",
        )
