"""The queue of erasures: read a request, count, confirm, and erase by one worker at a time.

The states are ``looking`` → ``looked`` → ``waiting`` → ``running`` → ``done``, or ``unfinished`` if
something could not be reached: this is retried until it succeeds or an admin leaves that part out.
A request that is not confirmed within an hour is ``dropped``. While an erasure is not over, its
keys are stored sealed in its row; then they are deleted, and a keyed digest of each stays. No error
message repeats a key.
"""

import datetime as dt
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from django.conf import settings
from django.db.models import Case, Q, Value, When
from django.db.models.functions import Now

from replview.jobs.rows import JobRows
from replview.store.django_session import DjangoSession
from replview.store.models import Erasure, Relation, Slot
from replview.store.read.row_history import keys
from replview.store.secrets import seal, unseal
from replview.store.write.access_record import Action, note
from replview.text.parsing import table_word
from replview.text.problem import CodedProblem

MOST_KEYS = 10_000
_LONGEST_REASON = 1_000
_PURPOSE = b"replview: keys of erased rows"


class Unerasable(CodedProblem, ValueError):
    """A request that cannot be erased; ``remedy`` has the alternative."""

    code_of_all = "unerasable"

    def __str__(self) -> str:
        return self.cause


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureRequest:
    """A valid request for an erasure."""

    slot: Slot
    #: ``(schema.table, key)``.
    pairs: tuple[tuple[str, dict[str, str | None]], ...]
    columns: tuple[str, ...] = ()
    actor: str = ""
    reason: str = ""


def read_erasure_request(
    slot: Slot,
    pairs: Sequence[tuple[str, str]],
    *,
    columns: Sequence[str] = (),
    actor: str = "",
    reason: str = "",
) -> ErasureRequest:
    """Read typed tables and keys. Raises ``Unerasable``, which never names a key."""
    if not pairs and not actor:
        raise Unerasable("nothing is named", "Name a table and a key, or an actor", "rows")
    if len(pairs) > MOST_KEYS:
        cause = f"more than {MOST_KEYS:,} keys at once"
        raise Unerasable(cause, "Erase them in several acts", "rows")
    tables: dict[str, keys.TableRows] = {}
    found = []
    for name, text in pairs:
        if name not in tables:
            table = keys.tables_named(DjangoSession(), slot, name)
            if table is None:
                cause = f"no change of a table {name} is recorded"
                raise Unerasable(cause, "See the relations", "rows")
            tables[name] = table
        table = tables[name]
        relation = table.relation
        pair = (table_word(relation.schema, relation.table), _key(name, table, text))
        if pair not in found:
            found.append(pair)
    known = {n for t in tables.values() for v in t.shapes.versions.values() for n in v.kinds()}
    for column in columns:
        if column not in known:
            cause = f"there is no column {column} in {', '.join(tables)}"
            raise Unerasable(cause, "See relations", "columns")
    return ErasureRequest(
        slot=slot, pairs=tuple(found), columns=tuple(dict.fromkeys(columns)),
        actor=actor.strip(), reason=reason.strip()[:_LONGEST_REASON],
    )  # fmt: skip


def _key(name: str, table: keys.TableRows, text: str) -> dict[str, str | None]:
    """Return the typed key or, for a table without key, the values that identify rows."""
    if not table.key_columns:
        columns = sorted({n for v in table.shapes.versions.values() for n in v.kinds()})
        try:
            return keys.parse_values(text, columns)
        except keys.KeyProblem as problem:
            remedy = f"It has {', '.join(columns)}"
            raise Unerasable(f"{name}: {problem}", remedy, "rows") from None
    try:
        return table.printed(DjangoSession(), keys.parse_key(text, table.key_columns))
    except keys.KeyProblem:
        # The problem's text may repeat the typed key.
        cause = f"a key of {name} is not readable: it is {', '.join(table.key_columns)}"
        raise Unerasable(cause, "Type a key as row history takes it", "rows") from None


def digest(table: str, key: Mapping[str, str | None]) -> str:
    """Return a digest that proves, with the instance's secret key and the row's key, an erasure."""
    secret = hashlib.sha256(_PURPOSE + settings.SECRET_KEY.encode()).digest()
    return hmac.digest(secret, orjson.dumps([table, sorted(key.items())]), "sha256").hex()[:32]


#: Time after which an unconfirmed request is dropped, since its counts and keys get old.
LOOK_HOLDS = dt.timedelta(hours=1)
TRY_AGAIN = dt.timedelta(minutes=10)
_State = Erasure.State
_LOOKING, _LOOKED = Q(state=_State.LOOKING), Q(state=_State.LOOKED)
_UNFINISHED = Q(state=_State.UNFINISHED)
_FORGOTTEN = {"sealed_plan": "", "step": ""}


class _ErasureRows(JobRows[Erasure]):
    """The queue's rows: counted first, and retried while unfinished."""

    def __init__(self) -> None:
        state = Case(When(_LOOKING, Value(_State.LOOKING)), default=Value(_State.RUNNING))
        super().__init__(Erasure, task="replview.serve_erasures", lost_seconds=60.0,
                         beside=("slot__source",), at_claim={"state": state})  # fmt: skip
        self.held |= _LOOKING
        self.unended |= _LOOKING | _UNFINISHED | _LOOKED
        silent = Now() - dt.timedelta(seconds=self.lost_seconds)
        #: The state does not change while a worker counts, so the heartbeat shows a worker.
        nobody = Q(heartbeat_at=None) | Q(heartbeat_at__lt=silent)
        self.waiting |= (self.held & nobody) | _UNFINISHED


rows = _ErasureRows()


def request(erasure_request: ErasureRequest, *, by: str, how: str) -> Erasure:
    """Store the request; a worker counts first, and nothing is changed yet."""
    digests = [digest(name, key) for name, key in erasure_request.pairs]
    if erasure_request.actor:
        digests.append(digest("", {"actor": erasure_request.actor}))
    plan = {
        "pairs": erasure_request.pairs, "columns": erasure_request.columns,
        "actor": erasure_request.actor, "spans": {},
    }  # fmt: skip
    made = Erasure.objects.create(
        slot=erasure_request.slot,
        slot_name=str(erasure_request.slot),
        tables=list(dict.fromkeys(name for name, _ in erasure_request.pairs)),
        keys=len(erasure_request.pairs),
        columns=list(erasure_request.columns),
        digests=digests,
        names_actor=bool(erasure_request.actor),
        reason=erasure_request.reason,
        requested_by=by,
        requested_how=how,
        sealed_plan=seal(orjson.dumps(plan).decode()),
    )
    rows.announce()
    return made


def plan_of(row: Erasure) -> dict[str, object]:
    """Return the sealed keys and spans. Raises ``SecretKeyChanged``."""
    plan: dict[str, Any] = orjson.loads(unseal(row.sealed_plan))
    return plan


def keep_plan(row: Erasure, plan: Mapping[str, object]) -> bool:
    """Store the plan sealed; return False if another worker has the erasure."""
    return rows.beat(row, sealed_plan=seal(orjson.dumps(plan).decode()))


def word_of(row: Erasure) -> str:
    """Return the text that confirms: the number of changes, or of keys if that is withheld."""
    return f"erase {row.found.get('changes', row.keys)}"


def confirm(row: Erasure, *, by: str) -> bool:
    """Start erasing; return False if it was not counted yet or was confirmed before."""
    confirmed = Erasure.objects.filter(_LOOKED, pk=row.pk).update(
        state=_State.WAITING, confirmed_by=by, confirmed_at=Now(), problem_cause="",
        problem_remedy="",
    )  # fmt: skip
    rows.announce()
    return confirmed == 1


def drop(row: Erasure) -> bool:
    """Cancel a request that was not confirmed; return False if it was."""
    waiting = Erasure.objects.filter(_LOOKING | _LOOKED, pk=row.pk)
    return waiting.update(state=_State.DROPPED, sealed_plan="", finished_at=Now()) == 1


def leave_out(row: Erasure, root: str, *, by: str) -> bool:
    """Stop waiting for a root that will never be reached, and record that it was left out."""
    roots = [dict(each) for each in row.roots]
    for each in roots:
        if each["root"] == root and not each.get("done"):
            each["left_out_by"] = by
    unfinished = Erasure.objects.filter(_UNFINISHED, pk=row.pk)
    if roots == row.roots or unfinished.update(roots=roots, next_try_at=Now()) != 1:
        return False
    note(Action.ERASED, subject=f"erasure {row.pk}", details={"left out": root})
    rows.announce()
    return True


def try_again(row: Erasure) -> bool:
    """Retry an unfinished erasure now."""
    wanted = Erasure.objects.filter(_UNFINISHED, pk=row.pk).update(next_try_at=Now())
    rows.announce()
    return wanted == 1


def claim(only: int | None = None) -> Erasure | None:
    """Claim the oldest erasure that is due, or the given one."""
    due = ~_UNFINISHED | Q(next_try_at__lte=Now()) if only is None else Q(pk=only)
    return rows.claim(rows.waiting & due)


def forget_unconfirmed() -> None:
    """Drop requests that were not confirmed in time, and delete their keys."""
    old = rows.rows(_LOOKED, heartbeat_at__lt=Now() - LOOK_HOLDS)
    cause = "it was not confirmed within an hour"
    rows.leave(old, "DROPPED", finished_at=Now(), problem_cause=cause, **_FORGOTTEN)


def give_back(row: Erasure) -> None:
    """Release the erasure when the worker stops, so that another continues at once."""
    mine = rows.mine(row)
    rows.leave(mine.filter(rows.running), "WAITING", step="")
    mine.filter(_LOOKING).update(heartbeat_at=None, step="")


def looked(row: Erasure, **columns: Any) -> bool:
    """Store the result of counting."""
    return rows.beat(row, state=_State.LOOKED, step="", **columns)


def finish(row: Erasure, **columns: Any) -> bool:
    """Mark the erasure as done, and delete its keys."""
    columns |= {"problem_cause": "", "problem_remedy": "", "next_try_at": None, **_FORGOTTEN}
    return rows.end(row, "DONE", **columns)


def stay_unfinished(row: Erasure, cause: str, remedy: str, **columns: Any) -> bool:
    """Mark the erasure as unfinished, to be retried later."""
    columns |= {"problem_cause": cause, "problem_remedy": remedy, "next_try_at": Now() + TRY_AGAIN}
    return rows.beat(row, state=_State.UNFINISHED, step="", **columns)


def refuse(row: Erasure, cause: str, remedy: str) -> bool:
    """Drop a request that could not be counted; nothing was changed."""
    return rows.end(row, "DROPPED", problem_cause=cause, problem_remedy=remedy, **_FORGOTTEN)


def others_recording(slot: Slot, tables: Sequence[str]) -> list[str]:
    """Return other slots of the server that recorded these tables, to be erased separately."""
    relations = Relation.objects.filter(slot__source=slot.source_id).exclude(slot=slot)
    found = relations.select_related("slot__source")
    named = [r for r in found if table_word(r.schema, r.table) in tables]
    return sorted({str(relation.slot) for relation in named})
