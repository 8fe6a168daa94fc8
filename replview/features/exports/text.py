"""The export page's verdict: ready, empty, forbidden, or not to be written."""

from collections.abc import Mapping
from typing import Any

from replview.features.exports.outlook import Outlook
from replview.store.read.transactions.transaction_filter import NO_ORIGIN, TransactionFilter
from replview.targets.policy import Policy, Refused
from replview.text.formats import age_words, bytes_words, count_words, plural
from replview.ui.sentence import Sentence, as_next, refusal

#: Words without a chip of their own to be edited in, as the sentence has them.
REMOVABLE = {
    "from_lsn": "from LSN", "to_lsn": "to LSN", "transaction": "of transaction",
    "q": "with the text", "id": "of xid or gid", "states": "in the state", "origin": "of origin",
    "min_changes": "of at least", "min_bytes": "of at least",
    "prepared_min": "prepared for at least", "where": "where", "key": "of the row",
}  # fmt: skip
#: Of a slice that is counted while it is written.
UNCOUNTED_FIGURES: list[dict[str, Any]] = [
    {"label": "Rows", "number": None, "rest": "counted while it runs", "main": True},
    {"label": "Size", "number": None},
    {"label": "Time", "number": None},
    {"label": "Transactions", "number": None},
]


def chip_words(word: str, text: str, wanted: TransactionFilter) -> str:
    """A word of the address as people say it; a figure that is none as it stands there."""
    if word == "min_changes" and wanted.min_changes:
        return plural(wanted.min_changes, "change")
    if word == "min_bytes" and wanted.min_bytes:
        return bytes_words(wanted.min_bytes)
    if word == "prepared_min" and wanted.prepared_min:
        return age_words(wanted.prepared_min)
    return "the source itself" if word == "origin" and text == NO_ORIGIN else text


def sentence_of(
    *,
    policy: Policy,
    trouble: Refused | None,
    empty: tuple[str, str] | None,
    outlook: Outlook | None,
    uncounted: Refused | None,
    left_out: tuple[str, ...],
    notes: int,
    target_trouble: Refused | None,
    tested: Mapping[str, Any] | None,
) -> Sentence:
    """The worst first."""
    if (impossible := _impossible(policy, trouble, empty)) is not None:
        return impossible
    if outlook is None and uncounted is None:
        return Sentence(level="unknown", title="Unknown what it would take.")
    if outlook is not None and not outlook.anything:
        cause = "no stored change passes."
        return Sentence(level="idle", title="Empty slice:", cause=cause, next="edit the sentence.")
    if target_trouble is not None:
        return refusal("look", "This target cannot be written to:", target_trouble)
    if tested is not None and not tested["ok"]:
        failed = Refused(str(tested["cause"]), str(tested["remedy"]))
        return refusal("look", "The test write failed:", failed)
    if outlook is not None:
        return Sentence(
            level="look" if left_out else "ok",
            title=_ready_words(outlook),
            cause=_cause(left_out, notes),
            next="export, or edit the sentence.",
            ready=True,
        )
    cause = f"{uncounted.cause if uncounted else ''}; it is counted while it runs."
    following = "export, or narrow the sentence."
    title = "Ready, rows unknown:"
    return Sentence(level="look", title=title, cause=cause, next=following, ready=True)


def _impossible(
    policy: Policy, trouble: Refused | None, empty: tuple[str, str] | None
) -> Sentence | None:
    """What keeps any such slice from being exported; None: nothing does."""
    try:
        policy.check()
    except Refused as refused:
        return refusal("idle", "Exports are switched off.", refused)
    if trouble is not None:
        return refusal("look", "This slice cannot be exported:", trouble)
    if empty is not None:
        cause, following = empty
        return Sentence(
            level="idle", title="Empty slice:", cause=f"{cause}.", next=as_next(following)
        )
    return None


def _ready_words(outlook: Outlook) -> str:
    told = outlook.estimate
    rows = f"{count_words(told.rows)} row{'' if told.rows == 1 else 's'}"
    time = age_words(max(told.seconds, 1.0))
    return f"Ready: {rows}, about {bytes_words(outlook.size_bytes)} and {time}."


def _cause(left_out: tuple[str, ...], notes: int) -> str:
    if left_out:
        return f"Wider than the filter: an export is not narrowed by {', '.join(left_out)}."
    if notes:
        verb = "carries" if notes == 1 else "carry"
        return f"{plural(notes, 'column')} {verb} a note; no value is lost."
    return "No value is lost on the way."


def figures_of(outlook: Outlook) -> list[dict[str, Any]]:
    """Rows, size, time, transactions, ends."""
    estimate = outlook.estimate
    where = "on Spark" if estimate.spark else "written here, no JVM"
    lsns = {"number": outlook.first_lsn, "rest": f"to {outlook.last_lsn}"}
    return [
        {"label": "Rows", "number": count_words(estimate.rows), "rest": "counted", "main": True},
        {"label": "Size", "number": bytes_words(outlook.size_bytes), "rest": "estimate"},
        {"label": "Time", "number": age_words(max(estimate.seconds, 1.0)), "rest": where},
        {
            "label": "Transactions",
            "number": count_words(estimate.transactions),
            "rest": "one slice, whole",
        },
        {"label": "Slice"} | (lsns if outlook.first_lsn else {"number": "none"}),
    ]
