"""What somebody wants erased: tables, keys and an actor, understood. No refusal repeats a key."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
from django.conf import settings

from replview.store.django_session import DjangoSession
from replview.store.models import Slot
from replview.store.read.row_history.keys import (
    KeyProblem,
    TableRows,
    parse_key,
    parse_values,
    tables_named,
)
from replview.text.problem import CodedProblem

MOST_KEYS = 10_000
_LONGEST_REASON = 1_000
_PURPOSE = b"replview: keys of erased rows"


class Unerasable(CodedProblem, ValueError):
    """What is asked for cannot be erased; ``remedy`` says what to do instead."""

    code_of_all = "unerasable"

    def __str__(self) -> str:
        return self.cause


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureRequest:
    """What somebody wants erased, understood."""

    slot: Slot
    #: ``(schema.table, key)``.
    pairs: tuple[tuple[str, dict[str, str | None]], ...]
    columns: tuple[str, ...] = ()
    actor: str = ""
    reason: str = ""

    @property
    def tables(self) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(name for name, _ in self.pairs))


def read_erasure_request(
    slot: Slot,
    pairs: Sequence[tuple[str, str]],
    *,
    columns: Sequence[str] = (),
    actor: str = "",
    reason: str = "",
) -> ErasureRequest:
    """From typed tables and keys. Raises ``Unerasable``, which never names a key."""
    if not pairs and not actor:
        raise Unerasable("nothing is named", "Name a table and a key, or an actor")
    if len(pairs) > MOST_KEYS:
        raise Unerasable(f"more than {MOST_KEYS:,} keys at once", "Erase them in several acts")
    tables: dict[str, TableRows] = {}
    found = []
    for name, text in pairs:
        if name not in tables:
            table = tables_named(DjangoSession(), slot, name)
            if table is None:
                raise Unerasable(f"no change of a table {name} is recorded", "See the relations")
            tables[name] = table
        table = tables[name]
        pair = (str(table.relation), _key(name, table, text))
        if pair not in found:
            found.append(pair)
    known = {n for t in tables.values() for v in t.shapes.versions.values() for n in v.kinds()}
    for column in columns:
        if column not in known:
            raise Unerasable(f"there is no column {column} in {', '.join(tables)}", "See relations")
    return ErasureRequest(
        slot=slot, pairs=tuple(found), columns=tuple(dict.fromkeys(columns)),
        actor=actor.strip(), reason=reason.strip()[:_LONGEST_REASON],
    )  # fmt: skip


def _key(name: str, table: TableRows, text: str) -> dict[str, str | None]:
    """The typed key; where rows cannot be told apart, values that they have."""
    columns = {n for v in table.shapes.versions.values() for n in v.kinds()}
    try:
        if not table.key_columns:
            return parse_values(text, sorted(columns))
        return parse_key(text, table.key_columns)
    except KeyProblem as problem:
        if not table.key_columns:
            raise Unerasable(f"{name}: {problem}", f"It has {', '.join(sorted(columns))}") from None
        # Its words may repeat what was typed as a key.
        cause = f"a key of {name} is not readable: it is {', '.join(table.key_columns)}"
        raise Unerasable(cause, "Type a key as row history takes it") from None


def digest(table: str, key: Mapping[str, str | None]) -> str:
    """Tells, to whoever has the instance's secret key and this row's key, that it was erased."""
    told = orjson.dumps([table, sorted(key.items())])
    made = hmac.new(
        hashlib.sha256(_PURPOSE + settings.SECRET_KEY.encode()).digest(), told, "sha256"
    )
    return made.hexdigest()[:32]
