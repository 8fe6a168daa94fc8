"""Making and removing mask rules, and what a rule would match of what is recorded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from django.db import transaction

from replview.access import visibility
from replview.access.rights import Visitor
from replview.store.django_session import rows
from replview.store.models import MaskRule, Source
from replview.store.read.mask_rules import LONGEST_PATTERN, NamedColumn, Rule
from replview.store.write.access_record import note
from replview.text.parsing import clean_text
from replview.text.problem import CodedProblem

_LONGEST_NOTE = 500
_VERSIONS = """
    SELECT o.id, o.name, s.name, v.schema, v."table", v.number,
           v.id IS NOT DISTINCT FROM r.current_version_id, v.columns, v.key_columns
    FROM relation_version v JOIN relation r ON r.id = v.relation_id
    JOIN slot s ON s.id = r.slot_id JOIN source o ON o.id = s.source_id
    WHERE %(source)s::bigint IS NULL OR o.id = %(source)s
    ORDER BY o.name, s.name, v.schema, v."table", r.id, v.number
"""


class MaskProblem(CodedProblem, ValueError):
    """What was typed makes no rule; ``field`` names the box."""

    code_of_all = "bad_mask"
    status = 400


@dataclass(slots=True, kw_only=True)
class Matched:
    """A table a rule matches: in one slot, by one name."""

    source: str
    slot: str
    schema: str
    table: str
    #: ``{column: type}``, in the order of the newest version that has it.
    columns: dict[str, str | None] = field(default_factory=dict)
    #: Of those, what rows are known by.
    keys: list[str] = field(default_factory=list)
    #: Versions that have such a column, and whether the one in force is among them.
    versions: list[int] = field(default_factory=list)
    now: bool = False

    @property
    def version_words(self) -> str:
        """``version 3``, ``versions 1–3``; those that are no more are said to be so."""
        numbers = self.versions
        run = len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1))
        shown = f"{numbers[0]}–{numbers[-1]}" if run else ", ".join(map(str, numbers))
        former = "" if self.now else ", not in force now"
        return f"version{'s' if len(numbers) > 1 else ''} {shown}{former}"


def matched_by(rule: Rule) -> list[Matched]:
    """The recorded tables that a rule matches, by source, slot and name."""
    versions = rows(_VERSIONS, {"source": rule.source_id})
    found: dict[tuple[str, str, str, str], Matched] = {}
    for source_id, source, slot, schema, table, number, now, columns, keys in versions:
        if not rule.matches_table(source_id, schema, table):
            continue
        named = [NamedColumn(str(c["name"]), c.get("type")) for c in _loaded(columns)]
        hit = [c for c in named if rule.matches_column(c.name, c.type_name)]
        if not hit:
            continue
        at = (source, slot, schema, table)
        one = found.setdefault(at, Matched(source=source, slot=slot, schema=schema, table=table))
        one.columns |= {column.name: column.type_name for column in hit}
        one.keys = sorted({*one.keys, *(c.name for c in hit if c.name in _loaded(keys))})
        one.versions = sorted({*one.versions, number})
        one.now = one.now or now
    return list(found.values())


def unsaved_rule(
    *,
    source: str = "",
    table: str = "",
    column: str = "",
    type_name: str = "",
    when: str = "",
    note: str = "",
    by: str = "",
) -> MaskRule:
    """The rule these words make, not saved; no ``source`` is every one. Raises ``MaskProblem``."""
    found = Source.objects.filter(name=source).first() if source else None
    if source and found is None:
        raise MaskProblem(f"there is no source {source[:63]}", field="source")
    if when not in MaskRule.When.values:
        raise MaskProblem("choose where the values are taken away", field="when")
    table, column, type_name = table.strip() or "*", column.strip() or "*", type_name.strip()
    for name, pattern in (("table", table), ("column", column), ("type", type_name)):
        if len(pattern) > LONGEST_PATTERN:
            raise MaskProblem(f"a pattern has at most {LONGEST_PATTERN} characters", field=name)
    if not type_name and {*table, *column} <= set("*."):
        cause = "name a table, a column or a type: this would mask everything"
        raise MaskProblem(cause, field="column")
    return MaskRule(
        source=found,
        table_pattern=table,
        column_pattern=column,
        type_pattern=type_name,
        when=when,
        note=clean_text(note, _LONGEST_NOTE),
        created_by=by,
    )


def add_rule(rule: MaskRule, *, user: Visitor = None) -> MaskRule:
    """Save it: it is obeyed at once, by receivers with the next thing they store."""
    with transaction.atomic():
        rule.save()
        _note("mask rule added", rule, user)
    visibility.forget()
    return rule


def remove_rule(rule: MaskRule, *, user: Visitor = None) -> None:
    """Remove it: what it hid on display is seen again, what it took away at ingest never."""
    with transaction.atomic():
        _note("mask rule removed", rule, user)
        rule.delete()
    visibility.forget()


def as_rule(rule: MaskRule) -> Rule:
    return Rule(
        rule.pk or 0, rule.source_id, rule.table_pattern, rule.column_pattern, rule.type_pattern,
        "ingest" if rule.when == MaskRule.When.INGEST else "display",
    )  # fmt: skip


def all_rules() -> Sequence[MaskRule]:
    """Every rule, the oldest first."""
    return list(MaskRule.objects.select_related("source"))


def _note(what: str, rule: MaskRule, user: Visitor) -> None:
    details = {"tables": rule.table_pattern, "columns": rule.column_pattern,
               "type": rule.type_pattern, "when": rule.when}  # fmt: skip
    note("changed_settings", user=user, subject=what, source_id=rule.source_id, details=details)


def _loaded(value: object) -> Any:
    return orjson.loads(value) if isinstance(value, str) else value
