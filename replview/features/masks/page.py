"""Build the page of mask rules: each rule with its matches, the form, and the form's preview."""

from dataclasses import dataclass, field

from replview.access import mask_making
from replview.features.masks.forms import MaskForm
from replview.store.models import MaskRule
from replview.text.formats import plural
from replview.ui.sentence import Sentence

#: Most tables shown per rule and most columns per table; a count stands for the rest.
_TABLES_SHOWN = 20
_COLUMNS_SHOWN = 12


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
    form: MaskForm
    #: The rule in the form; None while the form is empty or has an error.
    preview: RuleView | None


def build_masks_page(form: MaskForm) -> MasksPage:
    """Read the mask rules, and preview the rule in the form if the form has no error."""
    rules = [rule_view(rule) for rule in mask_making.all_rules()]
    return MasksPage(
        rules=rules,
        sentence=_sentence(rules),
        form=form,
        preview=rule_view(form.rule) if form.is_valid() and form.rule else None,
    )


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
