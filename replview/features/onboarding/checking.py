"""Show the findings of the source check (``doctor``), worst first, each with its remedies."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from replview.catalog.connections import reading
from replview.catalog.doctor import examine
from replview.catalog.doctor_checks import Finding, Grade, check_monitoring
from replview.catalog.problems import THROUGH_SQL, SourceProblem
from replview.store.identity import store_system_identifier
from replview.store.models import SourceDraft
from replview.text.formats import plural
from replview.text.problem import Remedy, split_remedy, with_place
from replview.ui.sentence import PLACES, sentence

Kind = SourceDraft.Kind
_LEVELS = {Grade.PROBLEM: "now", Grade.WARNING: "look", Grade.NOTE: "idle", Grade.OK: "ok"}
#: Codes of the findings that matter when no slot is created.
_MONITORING_CODES = {
    "reachable", "version", "old_version", "unsupported_version", "monitoring", "no_pg_monitor",
    "wal_limit", "no_wal_limit", "inactive_slot", "lost_slot",
}  # fmt: skip
#: Codes of problems that block a replication connection, but not the SQL functions.
_WALSENDER_ALONE = {"pooler", "hba_refused", "no_free_walsender"}
_SQL_ALTERNATIVE = re.compile(f"[,;] or {re.escape(THROUGH_SQL)}")
_DEADLINE_SECONDS = 5.0
#: Most statements shown per finding; a database may have hundreds of tables.
_MOST_STATEMENTS = 12
_LEVEL_ORDER = {"now": 0, "look": 1, "idle": 2, "ok": 3}


@dataclass(frozen=True, slots=True)
class FindingView:
    """A finding with its remedy in pieces that can be copied."""

    level: str
    code: str
    message: str
    remedies: list[Remedy]


@dataclass(frozen=True, slots=True)
class Checked:
    """All findings about a source, worst first."""

    findings: list[FindingView] = field(default_factory=list)
    #: True when a problem must be fixed before the source can be added.
    blocked: bool = False
    #: True when the slot can be read, but only through SQL functions.
    sql_only: bool = False

    def of(self, *levels: str) -> list[FindingView]:
        """Return the findings of these levels."""
        return [finding for finding in self.findings if finding.level in levels]

    @property
    def to_mend(self) -> list[FindingView]:
        """Return the findings that must or should be fixed."""
        return self.of("now", "look")

    @property
    def to_know(self) -> list[FindingView]:
        """Return the notes."""
        return self.of("idle")

    @property
    def fine(self) -> list[FindingView]:
        """Return the checks that found nothing wrong."""
        return self.of("ok")

    @property
    def unknown(self) -> bool:
        """Return whether the server could not say if it accepts pgoutput."""
        return any(finding.code == "plugins_unknown" for finding in self.findings)

    @property
    def level(self) -> str:
        """Return the level of the result as a whole."""
        return "now" if self.blocked else "look" if self.of("now", "look") else "ok"

    @property
    def title(self) -> str:
        """Return the result in one sentence."""
        blocking, warnings = len(self.of("now")), len(self.of("look"))
        if self.blocked:
            return f"{plural(blocking, 'thing')} to fix first."
        if self.unknown:
            return "Its server may refuse pgoutput."
        if self.sql_only:
            return "Ready, through SQL functions."
        return f"Ready, with {plural(warnings, 'warning')}." if warnings else "Ready."


def check(conninfo: str, kind: str | None = None) -> Checked:
    """Check a source for one kind of onboarding; without ``kind``, for all of them."""
    findings = examine(conninfo, store_system_identifier=store_system_identifier())
    if kind != Kind.WATCH and _is_reached(findings):
        findings += _monitoring_findings(conninfo)
    if kind == Kind.MONITOR:
        findings = [
            finding
            for finding in findings
            if finding.code in _MONITORING_CODES or not _is_reached(findings)
        ]
    problems = {finding.code for finding in findings if finding.grade is Grade.PROBLEM}
    sql_only = bool(problems) and kind == Kind.RECORD and problems <= _WALSENDER_ALONE
    if sql_only:
        findings = [
            replace(finding, grade=Grade.WARNING) if finding.grade is Grade.PROBLEM else finding
            for finding in findings
        ]
    elif kind == Kind.WATCH:
        # A temporary slot needs a replication connection, so do not suggest SQL functions.
        findings = [
            replace(finding, remedy=_SQL_ALTERNATIVE.sub("", finding.remedy), field="")
            for finding in findings
        ]
    return Checked(
        findings=sorted(map(view_of, findings), key=lambda finding: _LEVEL_ORDER[finding.level]),
        blocked=bool(problems) and not sql_only,
        sql_only=sql_only and _is_reached(findings),
    )


def view_of(finding: Finding) -> FindingView:
    """Return a finding as pages show it."""
    remedies = _remedies(with_place(finding.remedy, finding.field, PLACES))
    message = f"{sentence(finding.message)}."
    return FindingView(_LEVELS[finding.grade], finding.code, message, remedies)


def _remedies(text: str) -> list[Remedy]:
    """Split a remedy into its statements, and alternatives for a table into one each."""
    remedies = []
    for part in text.split("; ")[:_MOST_STATEMENTS]:
        if part.startswith("ALTER TABLE"):
            first, *others = part.split(", or ")
            remedies += [
                Remedy("", f"{first};", ""),
                *(Remedy("or", f"{other};", "") for other in others),
            ]
        elif part:
            remedies.append(split_remedy(part))
    return remedies


def _is_reached(findings: Iterable[Finding]) -> bool:
    """Return whether the source could be connected to."""
    return any(finding.code == "reachable" for finding in findings)


def _monitoring_findings(conninfo: str) -> list[Finding]:
    """Return the findings about the rights that monitoring needs; empty if they cannot be read."""
    try:
        with reading(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
            return list(check_monitoring(connection))
    except SourceProblem:
        return []
