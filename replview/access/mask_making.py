"""Create and remove mask rules, and list the recorded tables that a rule matches."""

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
_VERSIONS_SQL = """
    SELECT o.id, o.name, s.name, v.schema, v."table", v.number,
           v.id IS NOT DISTINCT FROM r.current_version_id, v.columns, v.key_columns
    FROM relation_version v JOIN relation r ON r.id = v.relation_id
    JOIN slot s ON s.id = r.slot_id JOIN source o ON o.id = s.source_id
    WHERE %(source)s::bigint IS NULL OR o.id = %(source)s
    ORDER BY o.name, s.name, v.schema, v."table", r.id, v.number
"""


class MaskProblem(CodedProblem, ValueError):
    """The typed text makes no rule; ``field`` names the form field."""

    code_of_all = "bad_mask"
    status = 400


@dataclass(slots=True, kw_only=True)
class Matched:
    """A table of one slot, under one name, that a rule matches."""

    source: str
    slot: str
    schema: str
    table: str
    #: ``{column: type}`` in version order; the newest version gives the type.
    columns: dict[str, str | None] = field(default_factory=dict)
    #: The matched columns that are part of the row's key.
    keys: list[str] = field(default_factory=list)
    #: Numbers of the versions that have such a column.
    versions: list[int] = field(default_factory=list)
    #: True when the version in force is among them.
    now: bool = False

    @property
    def version_words(self) -> str:
        """Return ``version 3`` or ``versions 1–3``, and say where none of them is in force."""
        numbers = self.versions
        consecutive = len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1))
        number_text = f"{numbers[0]}–{numbers[-1]}" if consecutive else ", ".join(map(str, numbers))
        suffix = "" if self.now else ", not in force now"
        return f"version{'s' if len(numbers) > 1 else ''} {number_text}{suffix}"


def matched_by(rule: Rule) -> list[Matched]:
    """Return the recorded tables that a rule matches, by source, slot and name."""
    versions = rows(_VERSIONS_SQL, {"source": rule.source_id})
    matches: dict[tuple[str, str, str, str], Matched] = {}
    for source_id, source, slot, schema, table, number, in_force, columns, keys in versions:
        if not rule.matches_table(source_id, schema, table):
            continue
        named_columns = [NamedColumn(str(c["name"]), c.get("type")) for c in _parsed(columns)]
        matching = [c for c in named_columns if rule.matches_column(c.name, c.type_name)]
        if not matching:
            continue
        name = (source, slot, schema, table)
        match = matches.setdefault(
            name, Matched(source=source, slot=slot, schema=schema, table=table)
        )
        match.columns |= {column.name: column.type_name for column in matching}
        match.keys = sorted({*match.keys, *(c.name for c in matching if c.name in _parsed(keys))})
        match.versions = sorted({*match.versions, number})
        match.now = match.now or in_force
    return list(matches.values())


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
    """Return an unsaved rule; an empty ``source`` means every one. Raises ``MaskProblem``."""
    source_row = Source.objects.filter(name=source).first() if source else None
    if source and source_row is None:
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
        source=source_row,
        table_pattern=table,
        column_pattern=column,
        type_pattern=type_name,
        when=when,
        note=clean_text(note, _LONGEST_NOTE),
        created_by=by,
    )


def add_rule(rule: MaskRule, *, user: Visitor = None) -> MaskRule:
    """Save the rule. Pages apply it at once, receivers from the next batch that they store."""
    with transaction.atomic():
        rule.save()
        _note("mask rule added", rule, user)
    visibility.forget()
    return rule


def remove_rule(rule: MaskRule, *, user: Visitor = None) -> None:
    """Remove the rule. Values masked on display show again; those masked at ingest are lost."""
    with transaction.atomic():
        _note("mask rule removed", rule, user)
        rule.delete()
    visibility.forget()


def as_rule(rule: MaskRule) -> Rule:
    """Return the store's form of a rule, which matches tables and columns."""
    return Rule(
        rule.pk or 0, rule.source_id, rule.table_pattern, rule.column_pattern, rule.type_pattern,
        "ingest" if rule.when == MaskRule.When.INGEST else "display",
    )  # fmt: skip


def all_rules() -> Sequence[MaskRule]:
    """Return every rule, oldest first."""
    return list(MaskRule.objects.select_related("source"))


def _note(subject: str, rule: MaskRule, user: Visitor) -> None:
    details = {"tables": rule.table_pattern, "columns": rule.column_pattern,
               "type": rule.type_pattern, "when": rule.when}  # fmt: skip
    note("changed_settings", user=user, subject=subject, source_id=rule.source_id, details=details)


def _parsed(value: object) -> Any:
    return orjson.loads(value) if isinstance(value, str) else value
