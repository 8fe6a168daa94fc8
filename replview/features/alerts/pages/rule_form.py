"""The form of a rule: amounts in people's units, an error beside each field."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replview.features.alerts.rules.amounts import AmountError, exact_words, parse_amount
from replview.features.alerts.rules.kinds import KINDS, Kind, Unit
from replview.store.models import AlertRule
from replview.text.parsing import clean_text
from replview.ui.params import Params

_NAME_LIMIT = 100
_TABLES_MOST = 200
_TABLE_LIMIT = 130
_TEXT_LIMIT = 60


@dataclass
class RuleForm:
    """What the form shows and what was sent; ``rule`` takes what could be read of it."""

    rule: AlertRule
    values: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rule: AlertRule) -> "RuleForm":
        """As the rule is."""
        unit = KINDS[rule.kind].unit
        values = {
            "name": rule.name,
            "severity": rule.severity,
            "enabled": "on" if rule.enabled else "",
            "threshold": exact_words(rule.threshold, unit),
            "clear_threshold": exact_words(rule.clear_threshold, unit),
            "hold": exact_words(rule.hold_seconds, Unit.SECONDS),
            "clear": exact_words(rule.clear_seconds, Unit.SECONDS),
            "tables": "\n".join(rule.tables),
        }
        return cls(rule, values)

    @property
    def kind(self) -> Kind:
        """What is measured."""
        return KINDS[self.rule.kind]

    @property
    def has_threshold(self) -> bool:
        """Whether the kind has one."""
        return self.kind.unit != Unit.YES_NO

    @property
    def fields(self) -> list[dict[str, str]]:
        """The amounts: name, label, hint, value, error."""
        kind, below = self.kind, self.kind.below
        rows = []
        if self.has_threshold:
            rows.append(
                ("threshold", "Fires below" if below else "Fires from", _EXAMPLE[kind.unit])
            )
            rows.append(
                ("clear_threshold", "Over from" if below else "Over below",
                 "empty: at the same value")
            )  # fmt: skip
        if not kind.event:
            rows.append(("hold", "After it has held for", "0 s: at once"))
            rows.append(("clear", "Over after so long beyond", "0 s: at once"))
        return [
            {"name": name, "label": label, "hint": hint, "value": self.values.get(name, ""),
             "error": self.errors.get(name, "")}
            for name, label, hint in rows
        ]  # fmt: skip

    def read(self, sent: Mapping[str, Any]) -> bool:
        """Take what was sent; False with ``errors`` said."""
        names = ("name", "severity", "enabled", "threshold", "clear_threshold", "hold", "clear")
        params = Params(sent)
        self.values = {name: params.text(name, _NAME_LIMIT + 1) for name in names}
        self.values["tables"] = clean_text(sent.get("tables"), strip=False)
        rule = self.rule
        rule.name = self.values["name"]
        if not rule.name or len(rule.name) > _NAME_LIMIT:
            self.errors["name"] = f"Give it a name of at most {_NAME_LIMIT} characters"
        if self.values["severity"] in AlertRule.Severity.values:
            rule.severity = self.values["severity"]
        else:
            self.errors["severity"] = "Choose how urgent it is"
        rule.enabled = self.values["enabled"] == "on"
        if self.has_threshold:
            rule.threshold = self._amount("threshold", self.kind.unit)
            rule.clear_threshold = self._amount(
                "clear_threshold", self.kind.unit, may_be_empty=True
            )
            self._check_margin()
        if not self.kind.event:
            rule.hold_seconds = self._amount("hold", Unit.SECONDS, may_be_empty=True) or 0
            rule.clear_seconds = self._amount("clear", Unit.SECONDS, may_be_empty=True) or 0
        self._read_tables()
        return not self.errors

    def _amount(self, name: str, unit: Unit, *, may_be_empty: bool = False) -> float | None:
        text = self.values[name][:_TEXT_LIMIT]
        if not text and may_be_empty:
            return None
        try:
            return parse_amount(text, unit)
        except AmountError as error:
            self.errors[name] = str(error)
            return None

    def _check_margin(self) -> None:
        over, at = self.rule.clear_threshold, self.rule.threshold
        if over is None or at is None:
            return
        if self.kind.below and over < at:
            self.errors["clear_threshold"] = "At least the value at which it fires"
        elif not self.kind.below and over > at:
            self.errors["clear_threshold"] = "At most the value at which it fires"

    def _read_tables(self) -> None:
        if self.rule.kind != AlertRule.Kind.SCHEMA_CHANGE:
            return
        names = self.values["tables"].replace(",", "\n").split("\n")
        tables = list(dict.fromkeys(name.strip() for name in names if name.strip()))
        if len(tables) > _TABLES_MOST or any(len(name) > _TABLE_LIMIT for name in tables):
            self.errors["tables"] = f"At most {_TABLES_MOST} patterns"
        elif any("." not in name and "*" not in name for name in tables):
            self.errors["tables"] = "Write schema.table; * stands for any characters"
        else:
            self.rule.tables = tables


_EXAMPLE = {
    Unit.BYTES: "like 10 GB",
    Unit.SHARE: "like 90 %",
    Unit.SECONDS: "like 30 s, 5 min, 6 h",
    Unit.YES_NO: "",
}
