"""The export page: the fields of a slice, its estimate, and whether it can be written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import QueryDict

from replview.access.withheld import visible_exports
from replview.features.exports import reading_back
from replview.features.exports.forms import ExportForm
from replview.features.exports.outlook import Outlook, TooLong, outlook_of
from replview.features.exports.request import (
    ExportRequest,
    nothing_words,
    over_a_gap,
    read_export_request,
)
from replview.features.exports.summary import summary_of
from replview.store.models import Export, Relation, Slot
from replview.store.read.transactions.fields import FIELDS
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.targets.policy import Policy, Refused, default_target, read_policy, target_of
from replview.text.formats import age_words, bytes_words, count_words, plural
from replview.text.parsing import table_word
from replview.ui.forms import error_sentence
from replview.ui.job_pages import SummaryPart, tables_words, url_of, words_of
from replview.ui.sentence import Sentence, refusal

#: Parameters that have no input and can only be removed, with their labels.
_REMOVABLE = {field.parameter: field.label for field in FIELDS if field.label} | {
    "transaction": "of transaction", "where": "where", "key": "of the row",
}  # fmt: skip
#: Figures of a slice that is only counted while it is written.
_UNCOUNTED_FIGURES: list[dict[str, Any]] = [
    {"label": "Rows", "number": None, "rest": "counted while it runs", "main": True},
    {"label": "Size", "number": None},
    {"label": "Time", "number": None},
    {"label": "Transactions", "number": None},
]
_TABLES_OFFERED = 500
_EARLIER_SHOWN = 3
#: Parameters of this page that do not belong to the filter.
OWN_PARAMETERS = ("to", "before", "numeric_scale", "name", "since_last", "read")
_LIST_PARAMETERS = ("tables", "states")


def _figures_of(outlook: Outlook, target: str) -> list[dict[str, Any]]:
    """Return the figures: rows, size, time, transactions, ends."""
    estimate = outlook.estimate
    where = "on Spark" if outlook.spark_for(target) else "written here, no JVM"
    lsns = {"number": outlook.first_lsn, "rest": f"to {outlook.last_lsn}"}
    transactions = count_words(estimate.transactions)
    return [
        {"label": "Rows", "number": count_words(estimate.rows), "rest": "counted", "main": True},
        {"label": "Size", "number": bytes_words(outlook.size_bytes), "rest": "estimate"},
        {"label": "Time", "number": age_words(max(estimate.seconds, 1.0)), "rest": where},
        {"label": "Transactions", "number": transactions, "rest": "complete"},
        {"label": "Slice"} | (lsns if outlook.first_lsn else {"number": "none"}),
    ]


@dataclass(slots=True, kw_only=True)
class ExportPage:
    """The content of the export page."""

    slot: Slot
    form: ExportForm
    words: dict[str, str]
    policy: Policy
    sentence: Sentence
    anywhere: bool
    tables: list[str]
    export_request: ExportRequest | None = None
    outlook: Outlook | None = None
    schema: list[reading_back.SchemaTab] = field(default_factory=list)
    reading: reading_back.ReadingBack | None = None
    #: Set if counting the slice takes too long for a page.
    uncounted: Refused | None = None
    #: The target as it will be recorded; empty: it cannot be written to.
    target: str = ""
    target_default: str = ""
    target_trouble: Refused | None = None
    earlier: list[Export] = field(default_factory=list)
    earlier_in_all: int = 0

    @property
    def filter(self) -> TransactionFilter:
        """Return the filter that the parameters mean."""
        return self.form.filter

    @property
    def hidden(self) -> list[tuple[str, str]]:
        """Return all parameters, as hidden fields of a form."""
        return list(self.words.items())

    @property
    def figures(self) -> list[dict[str, Any]]:
        """Return the figures: rows, size, time, transactions, ends."""
        if self.uncounted is not None:
            return _UNCOUNTED_FIGURES
        return _figures_of(self.outlook, self.target) if self.outlook else []

    @property
    def reading_of(self) -> list[tuple[str, str]]:
        """Return the tables for which reading programs can be shown, each with its address."""
        names = self.reading.tables if self.reading else []
        return [(name, self.url(read=name)) for name in names]

    def url(self, **changes: str) -> str:
        """Return the page's address with these parameters changed; an empty one is removed."""
        return export_url(self.words | changes)

    @property
    def nearest_url(self) -> str:
        """Return the address of the slice widened to include the nearest change."""
        moment = self.outlook.nearest if self.outlook else None
        if moment is None:
            return self.url()
        since, until = self.filter.since_at, self.filter.until_at
        changes = {"from_lsn": "", "to_lsn": ""}
        if since is not None and moment < since:
            changes["since"] = utc_words(moment)
        if until is not None and moment >= until:
            changes["until"] = utc_words(moment + timedelta(milliseconds=1))
        return self.url(**changes)

    @property
    def removable(self) -> list[tuple[str, str, str]]:
        """Return the parameters that can only be removed: label, value, address without it."""
        # An invalid number stays as it was given.
        shown = {
            field.parameter: field.shown(value)
            for field, value in self.filter.restricting()
            if field.shown is not None
        }
        return [
            (label, shown.get(param, self.words[param]), self.url(**{param: ""}))
            for param, label in _REMOVABLE.items()
            if self.words.get(param)
        ]

    @property
    def kept(self) -> list[tuple[str, str]]:
        """Return the parameters that can only be removed, as hidden fields of the form."""
        return [(param, value) for param, value in self.hidden if param in _REMOVABLE]

    @property
    def summary(self) -> list[SummaryPart]:
        """Return the sentence that sums up the fields."""
        return summary_of(
            self.words,
            operations=self.form.operations,
            tables=self.tables_words,
            conditions=[(name, value) for name, value, _ in self.removable],
            target=self.target or self.words.get("to", ""),
        )

    @property
    def tables_words(self) -> str:
        """Return the tables in words, such as ``orders, payments``."""
        return tables_words(self.filter.tables)


def export_words(query: QueryDict) -> dict[str, str]:
    """Return the parameters of the page from an address or a form."""
    params = words_of(query, _LIST_PARAMETERS)
    # The find page names its one table by this parameter.
    return params | ({"tables": params.pop("table")} if "table" in params else {})


def utc_words(moment: datetime) -> str:
    """Return the moment in an address's form: ``2026-11-20T07:57:11.369827Z``."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def export_url(params: Mapping[str, str]) -> str:
    """Return the page's address, such as ``/exports/?slot=shop/replview&tables=public.orders``."""
    return url_of("exports", params)


def read_export_page(
    slot: Slot, params: dict[str, str], *, anywhere: bool, tested: Mapping[str, Any] | None
) -> ExportPage:
    """Return the content of the page; ``tested`` is the result of the last test write."""
    policy = read_policy()
    form = export_form(slot, params)
    rows = visible_exports().defer("result", "slice")
    page = ExportPage(
        slot=slot,
        form=form,
        words={"slot": str(slot)} | params,
        policy=policy,
        sentence=Sentence(level="idle", title=""),
        anywhere=anywhere,
        tables=_table_choices(slot, form.filter.tables),
        earlier=list(rows[:_EARLIER_SHOWN]),
        earlier_in_all=rows.count(),
    )
    trouble = _count_slice(page)
    _read_target(page)
    if page.export_request and page.outlook:
        page.reading = reading_back.reading_before(
            page.export_request.slice, page.outlook.tables, page.target, params.get("read", "")
        )
    last_test = tested if tested and tested.get("target") == page.target else None
    page.sentence = _refusal_sentence(page, trouble) or _sentence(page, last_test)
    return page


def _refusal_sentence(page: ExportPage, trouble: Refused | None) -> Sentence | None:
    """Return the sentence about what prevents the export, or None if nothing does."""
    try:
        page.policy.check()
    except Refused as refused:
        return refusal("idle", "Exports are switched off.", refused)
    if trouble is not None:
        return refusal("look", "This cannot be exported:", trouble)
    if page.export_request and page.export_request.empty:
        return refusal("idle", "Empty slice:", Refused(*nothing_words(page.export_request)))
    return None


def _sentence(page: ExportPage, tested: Mapping[str, Any] | None) -> Sentence:
    """Return the sentence about the slice and its target, the worst problem first."""
    outlook, uncounted = page.outlook, page.uncounted
    if outlook is None and uncounted is None:
        return Sentence(level="unknown", title="The size of the export is unknown.")
    if outlook is not None and not outlook.estimate.transactions:
        cause = "no stored change matches."
        return Sentence(level="idle", title="Empty slice:", cause=cause, next="change the fields.")
    if page.target_trouble is not None:
        return refusal("look", "This target cannot be written to:", page.target_trouble)
    if tested is not None and not tested["ok"]:
        refused = Refused(str(tested["cause"]), str(tested["remedy"]))
        return refusal("look", "The test write failed:", refused)
    if outlook is None:
        return Sentence(
            level="look",
            title="Ready, rows unknown:",
            cause=f"{uncounted.cause if uncounted else ''}; it is counted while it runs.",
            next="export, or narrow the slice.",
            ready=True,
        )
    export_request, row_count = page.export_request, outlook.estimate.rows
    left_out = export_request.left_out if export_request else ()
    gap = (
        f"Over a gap: {over_a_gap(export_request)}."
        if export_request and export_request.gaps
        else ""
    )
    time, size = age_words(max(outlook.estimate.seconds, 1.0)), bytes_words(outlook.size_bytes)
    rows = f"{count_words(row_count)} row{'' if row_count == 1 else 's'}"
    return Sentence(
        level="look" if left_out or gap else "ok",
        title=f"Ready: {rows}, about {size} and {time}.",
        cause=gap or _cause(left_out, page.schema),
        next="export, or change the fields.",
        ready=True,
    )


def _cause(left_out: tuple[str, ...], schema: list[reading_back.SchemaTab]) -> str:
    if left_out:
        return f"This export ignores {', '.join(left_out)}."
    notes = sum(column.warns for tab in schema for column in tab.columns)
    if notes:
        verb = "carries" if notes == 1 else "carry"
        return f"{plural(notes, 'column')} {verb} a note; no value is lost."
    return "No value is lost in conversion."


def _count_slice(page: ExportPage) -> Refused | None:
    """Resolve and count the slice; return what prevents its export, or None."""
    try:
        page.export_request = export_request_of(page.slot, page.form)
        page.target_default = default_target(page.export_request.slice)
        if not page.export_request.empty:
            page.outlook = outlook_of(page.export_request)
            page.schema = reading_back.schema_tabs(
                page.outlook, whole=page.export_request.slice.before == "full"
            )
    except TooLong as problem:
        page.uncounted = problem
    except Refused as problem:
        return problem
    return None


def export_form(slot: Slot, params: Mapping[str, str]) -> ExportForm:
    """Return the form of the page's parameters, which need not name the slot."""
    return ExportForm({"slot": str(slot)} | dict(params))


def export_request_of(slot: Slot, form: ExportForm) -> ExportRequest:
    """Return the slice that the form means. Raises ``Refused``."""
    filter_params = {name: value for name, value in form.data.items() if name not in OWN_PARAMETERS}
    return read_export_request(slot, filter_params, **form.options(), strict=False)


def _read_target(page: ExportPage) -> None:
    page.form.is_valid()
    form, elsewhere = page.form, ", another folder or a URL" if page.anywhere else ""
    form["to"].help_text = f"A folder within {page.policy.root}{elsewhere}."
    form.fields["to"].widget.attrs["placeholder"] = page.target_default
    text = form.cleaned_data.get("to") or page.target_default
    if not text:
        return
    try:
        page.target = target_of(text, page.policy, anywhere=page.anywhere)
    except Refused as refused:
        page.target_trouble = refused
        form.add_error("to", error_sentence(refused))


def _table_choices(slot: Slot, chosen: tuple[str, ...]) -> list[str]:
    relations = Relation.objects.filter(slot=slot).order_by("schema", "table")[:_TABLES_OFFERED]
    return sorted(
        {*(table_word(relation.schema, relation.table) for relation in relations), *chosen}
    )
