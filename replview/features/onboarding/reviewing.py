"""What will run: every statement with its rights and its cost, and what follows in the store."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replview.catalog.connections import reading
from replview.catalog.plan.answered import wish_of
from replview.catalog.plan.new_slot import SlotPlan, make_plan
from replview.catalog.plan.plan import Statement
from replview.catalog.problems import SourceProblem
from replview.jobs import drafts
from replview.store.models import SourceDraft
from replview.store.reachable import DSNError
from replview.store.secrets import SecretKeyChanged
from replview.text.formats import plural
from replview.ui.plan_text import for_page, sentence, trouble_for_page

_DEADLINE_SECONDS = 30.0
Kind = SourceDraft.Kind
#: A trouble → the step in which it is mended.
_MENDED_IN = {
    "bad_slot_name": "options",
    "slot_exists": "options",
    "publication_exists": "options",
    "bad_publication_name": "options",
    "bad_heartbeat": "options",
    "bad_budget": "options",
    "no_failover": "options",
    "no_such_table": "tables",
    "no_tables": "tables",
    "not_owner": "tables",
    "may_not_publish": "tables",
    "no_such_publication": "tables",
    "unusable_tables": "tables",
    "not_superuser": "tables",
    "all_tables_columns": "columns",
    "no_such_column": "columns",
    "identity_column": "columns",
}


@dataclass(frozen=True, slots=True)
class Review:
    """The plan as a page shows it, or why there is none."""

    steps: tuple[Statement, ...] = ()
    notes: list[str] = field(default_factory=list)
    waits_for: list[str] = field(default_factory=list)
    trouble: SourceProblem | None = None

    @property
    def statements(self) -> list[str]:
        """As they will run."""
        return [str(step) for step in self.steps]

    @property
    def digest(self) -> str:
        """What the user agrees to; others than these are never run."""
        return hashlib.sha256("\0".join(self.statements).encode()).hexdigest()

    @property
    def mended_in(self) -> str:
        """The step to go back to; empty: none."""
        return _MENDED_IN.get(self.trouble.code, "") if self.trouble else ""


def review(draft: SourceDraft) -> Review:
    """Look at the source and say what would be done."""
    if draft.kind == Kind.MONITOR:
        return Review()
    try:
        wish = wish_of(draft.answers, temporary=draft.kind == Kind.WATCH)
        conninfo = drafts.conninfo_of(draft)
        with reading(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
            return _of(make_plan(connection, wish))
    except SourceProblem as error:
        return Review(trouble=trouble_for_page(error))
    except (DSNError, SecretKeyChanged) as error:
        return Review(trouble=SourceProblem("bad_dsn", str(error), "Enter the address again"))


def _of(plan: SlotPlan) -> Review:
    return Review(
        steps=plan.statements,
        notes=[sentence(for_page(note)) for note in plan.notes],
        waits_for=[str(item) for item in plan.waits_for],
    )


def chosen_words(answers: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was chosen, a line a step, for a last look."""
    lines = []
    if answers.get("through") == "publications":
        lines.append(("Tables", f"those of {', '.join(answers.get('publications') or ())}"))
    elif answers.get("through") == "all":
        lines.append(("Tables", "all of them, also those made later"))
    elif answers.get("tables"):
        lines.append(("Tables", plural(len(answers["tables"]), "table")))
    rules = [rule for of in (answers.get("columns") or {}).values() for rule in of.values()]
    if "columns" in answers:
        masked, left_out = rules.count("mask"), rules.count("drop")
        words = f"{masked} masked, {left_out} left out" if rules else "all kept"
        lines.append(("Columns", words))
    return lines
