"""Build the page of mask rules: each rule with its matches, the form, and the form's preview."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from replview.access import mask_making
from replview.store.models import MaskRule, Source
from replview.text.formats import plural
from replview.ui.sentence import Sentence

#: Most tables shown per rule and most columns per table; a count stands for the rest.
_TABLES_SHOWN = 20
_COLUMNS_SHOWN = 12
#: Parameter of ``unsaved_rule`` by form field.
_RULE_PARAMETERS = {"source": "source", "table": "table", "column": "column", "type": "type_name",
                    "when": "when", "note": "note"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MatchedTable:
    """A table that a mask rule matches, with the columns that the list shows."""

    found: mask_making.Matched
    #: Name, type, and True for a column of the key.
    columns: list[tuple[str, str, bool]]
    more: int


@dataclass(slots=True, kw_only=True)
class RuleView:
    """A mask rule with the recorded tables and columns that it matches."""

    rule: MaskRule
    tables: list[MatchedTable] = field(default_factory=list)
    more_tables: int = 0
    columns: int = 0
    #: Matched columns that are part of a row's key, as ``schema.table.column``.
    keys: list[str] = field(default_factory=list)

    @property
    def at_ingest(self) -> bool:
        """Return whether matched values are discarded before they are stored."""
        return self.rule.when == MaskRule.When.INGEST

    @property
    def matches_words(self) -> str:
        """Return the matches as text, for example ``3 columns of 2 tables``."""
        if not self.columns:
            return "no recorded column yet"
        tables = len(self.tables) + self.more_tables
        return f"{plural(self.columns, 'column')} of {plural(tables, 'table')}"

    @property
    def title(self) -> str:
        """Return the rule's patterns as text, for example ``public.users.email, uuid``."""
        kind = f", {self.rule.type_pattern}" if self.rule.type_pattern else ""
        return f"{self.rule.table_pattern}.{self.rule.column_pattern}{kind}"


def rule_view(rule: MaskRule) -> RuleView:
    """Build the view of a rule from the recorded tables that it matches."""
    matches = mask_making.matched_by(mask_making.as_rule(rule))
    tables = [_matched_table(match) for match in matches[:_TABLES_SHOWN]]
    keys = [f"{match.schema}.{match.table}.{name}" for match in matches for name in match.keys]
    return RuleView(
        rule=rule,
        tables=tables,
        more_tables=max(len(matches) - _TABLES_SHOWN, 0),
        columns=sum(len(match.columns) for match in matches),
        keys=list(dict.fromkeys(keys)),
    )


def _matched_table(match: mask_making.Matched) -> MatchedTable:
    columns = [
        (name, kind or "unknown", name in match.keys) for name, kind in match.columns.items()
    ]
    return MatchedTable(match, columns[:_COLUMNS_SHOWN], max(len(columns) - _COLUMNS_SHOWN, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class MasksPage:
    """The page of mask rules: the list of rules, the form, and the form's preview."""

    rules: list[RuleView]
    sentence: Sentence
    #: Names of the sources that a rule can be limited to.
    sources: list[str]
    #: The values in the form, by field.
    values: Mapping[str, str]
    #: The error message, by field.
    errors: Mapping[str, str]
    #: The rule in the form; None while the form is empty or has an error.
    preview: RuleView | None


def build_masks_page(
    typed: Mapping[str, str], *, by: str, error: mask_making.MaskProblem | None = None
) -> MasksPage:
    """Read the mask rules, and preview the rule in the form if the form has no error."""
    rules = [rule_view(rule) for rule in mask_making.all_rules()]
    values = {form_field: typed.get(form_field, "")[:200] for form_field in _RULE_PARAMETERS}
    values["when"] = values["when"] or MaskRule.When.INGEST
    preview = None
    if error is None and any(typed.get(form_field) for form_field in ("table", "column", "type")):
        try:
            preview = rule_view(typed_rule(typed, by=by))
        except mask_making.MaskProblem as problem:
            error = problem
    return MasksPage(
        rules=rules,
        sentence=_sentence(rules),
        sources=list(Source.objects.values_list("name", flat=True)),
        values=values,
        errors={} if error is None else {error.field: str(error)},
        preview=preview,
    )


def typed_rule(typed: Mapping[str, str], *, by: str) -> MaskRule:
    """Build an unsaved rule from form values. Raises ``MaskProblem``."""
    params = {param: typed.get(form_field, "") for form_field, param in _RULE_PARAMETERS.items()}
    params["when"] = params["when"] or MaskRule.When.INGEST
    return mask_making.unsaved_rule(**params, by=by)


def _sentence(rules: list[RuleView]) -> Sentence:
    if not rules:
        return Sentence(
            level="idle",
            title="No column is masked.",
            cause="Everybody who may see a table sees all its values.",
            next="add a rule for columns that nobody should see.",
        )
    ingest = sum(rule.at_ingest for rule in rules)
    parts = [f"{ingest} at ingest: its values are not stored"] if ingest else []
    if len(rules) - ingest:
        parts.append(f"{len(rules) - ingest} on display: values are stored, and shown to nobody")
    matching = sum(bool(rule.columns) for rule in rules)
    return Sentence(
        level="ok" if matching == len(rules) else "look",
        title=f"{plural(len(rules), 'mask rule')} in force.",
        cause="; ".join(parts) + ".",
        next="" if matching == len(rules) else "check the rules that match no recorded column.",
    )
