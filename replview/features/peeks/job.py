"""Run peeks into slots, claimed from the store.

They run in threads apart from the worker's own few, since a peek may last a minute.
"""

import logging
from functools import cache, partial
from typing import Any

from replview.access.visibility import reading_session
from replview.catalog.connections import reading
from replview.catalog.peekable import read_place
from replview.catalog.problems import SourceProblem
from replview.jobs import peeks
from replview.receiver.peek import peek as look_into
from replview.store.django_session import current_rules
from replview.store.dsn import full_conninfo
from replview.store.models import Slot, SlotPeek, Source
from replview.store.reachable import DSNError
from replview.store.read.mask_rules import NamedColumn, masked_by
from replview.store.read.seen import masked_image
from replview.store.read.table_names import names_had
from replview.store.secrets import SecretKeyChanged

log = logging.getLogger(__name__)

#: Most peeks at the same time in one process; each uses a backend of its source.
_MOST_PEEKS = 2
#: Time limit for reading the slot from the source's catalog.
_CATALOG_SECONDS = 5.0


def carry_out(peek: SlotPeek) -> None:
    """Peek, and store the result or the reason of a failure."""
    try:
        result = peek_into(peek)
    except SourceProblem as error:
        _fail(peek, error)
    except (DSNError, SecretKeyChanged) as error:
        _fail(peek, SourceProblem("bad_dsn", str(error), "Fix that, or change its credentials"))
    except Exception as error:
        log.exception("peek %s failed", peek.pk)
        cause = f"replview failed during the peek ({type(error).__name__})"
        _fail(peek, SourceProblem("internal", cause, "See the log of the tasks worker"))
    else:
        peeks.finish(peek, without_masked(result, peek.source, ingest_alone=True))


def _fail(peek: SlotPeek, trouble: SourceProblem) -> None:
    peeks.rows.fail(peek, trouble.cause, trouble.remedy, problem_code=trouble.code)


def without_masked(
    result: dict[str, Any], source: Source, *, ingest_alone: bool
) -> dict[str, object]:
    """Return the result of a peek without masked values.

    ``ingest_alone`` removes only values masked at ingest, which must not be stored; otherwise
    values masked on display are removed too. As in the record, a column that is masked under one
    name of its table is masked under all names that the table had.
    """
    rules = current_rules()
    rule_columns: dict[str, set[str]] = {}
    for slot in Slot.objects.filter(source=source):
        for table, columns in (slot.column_rules or {}).items():
            rule_columns.setdefault(table, set()).update(columns)
    if not rules and not rule_columns:
        return result
    names_of_table = cache(partial(names_had, reading_session(), source.pk))
    changes = []
    for change in result.get("first_changes") or []:
        schema, table = str(change.get("schema") or ""), str(change.get("table") or "")
        images = [change.get(side) for side in ("old", "new", "key")]
        names = {name for image in images if isinstance(image, dict) for name in image}
        shape = [NamedColumn(str(name), None) for name in names]
        hidden: set[str] = set()
        for table_name in names_of_table(schema, table):
            masked = masked_by(rules, source.pk, *table_name, shape)
            hidden |= {
                column for column, stage in masked.items() if stage == "ingest" or not ingest_alone
            }
            hidden |= rule_columns.get(".".join(table_name), set())
        visible = {
            side: masked_image(image, hidden)
            for side, image in zip(("old", "new", "key"), images, strict=True)
            if isinstance(image, dict)
        }
        changes.append({**change, **visible})
    return {**result, "first_changes": changes}


def peek_into(peek: SlotPeek) -> dict[str, object]:
    """Read the slot within the requested bounds. Raises ``SourceProblem`` and errors of the DSN."""
    conninfo = full_conninfo(peek.source)
    return look_into(
        conninfo,
        peek.slot_name,
        plugin=_plugin(conninfo, peek.slot_name),
        options=peek.options,
        max_changes=peek.max_changes,
        max_seconds=peek.max_seconds,
    )


def _plugin(conninfo: str, slot_name: str) -> str:
    """Return the slot's current plugin. Raises ``SourceProblem`` if the slot cannot be peeked."""
    with reading(conninfo, deadline_seconds=_CATALOG_SECONDS) as connection:
        server = read_place(connection)
    slot = server.slot(slot_name)
    if slot is None:
        raise SourceProblem("no_such_slot", f"the server has no slot {slot_name}", "See its slots")
    if refusal := server.refusal(slot):
        raise SourceProblem(
            "not_peekable",
            f"slot {slot_name} cannot be peeked: {refusal}",
            "Choose an idle logical slot of this source's database",
        )
    return slot.plugin or ""


#: A peek whose worker was lost has failed; a worker that stops does not wait for its peeks.
KIND = peeks.rows.served(
    name="peek",
    run=lambda peek, stop: carry_out(peek),
    recover=peeks.fail_abandoned,
    at_once=_MOST_PEEKS,
    abandoned=True,
)
