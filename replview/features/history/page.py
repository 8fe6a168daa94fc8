"""The page of history jobs: the fields of a job over exported files, and whether it can run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from replview.access.withheld import visible_jobs
from replview.features.history.request import (
    HistoryRoot,
    fields_of,
    incarnations_there,
    known_roots,
    read_history_request,
    root_of,
)
from replview.features.history.summary import summary_of
from replview.parquet.writing.planning import spark_is_there
from replview.spark.history.commands import JOBS, PERIODS
from replview.spark.history.engines import most_for_duckdb
from replview.spark.sessions import SparkProblem
from replview.store.models import HistoryJob
from replview.targets.policy import Policy, Refused, read_policy
from replview.ui.job_pages import SummaryPart, tables_words, url_of
from replview.ui.sentence import Sentence, refusal

_EARLIER_SHOWN = 8
_DEFAULT_JOB = "as-of"
#: Parameters that may occur several times.
LISTS = ("tables",)


@dataclass(slots=True, kw_only=True)
class HistoryPage:
    """The content of the page of history jobs."""

    words: dict[str, str]
    policy: Policy
    anywhere: bool
    sentence: Sentence
    roots: list[HistoryRoot] = field(default_factory=list)
    #: Names of the incarnations at the root; empty: none, or unknown.
    incarnations: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    #: Parameters of the chosen job.
    fields: tuple[str, ...] = ()
    earlier: list[HistoryJob] = field(default_factory=list)
    earlier_in_all: int = 0
    periods: tuple[str, ...] = PERIODS

    @property
    def jobs(self) -> list[tuple[str, str]]:
        """Return the names of all jobs, each with its description."""
        return [(name, job[0]) for name, job in JOBS.items()]

    @property
    def does(self) -> str:
        """Return the description of the chosen job."""
        return JOBS.get(self.words.get("job", ""), ("",))[0]

    @property
    def hidden(self) -> list[tuple[str, str]]:
        """Return all parameters, as hidden fields of a form."""
        return list(self.words.items())

    @property
    def chosen_tables(self) -> list[str]:
        """Return the chosen tables."""
        return list(filter(None, self.words.get("tables", "").split(",")))

    @property
    def summary(self) -> list[SummaryPart]:
        """Return the sentence that sums up the fields."""
        return summary_of(self.words, self.fields, does=self.does, tables=self.tables_words)

    @property
    def tables_words(self) -> str:
        """Return the tables in words, such as ``orders, payments``."""
        return tables_words(self.chosen_tables)


def history_url(params: Mapping[str, str]) -> str:
    """Return the page's address, such as ``/history/?job=as-of&table=public.orders``."""
    return url_of("history-jobs", params)


def read_history_page(params: dict[str, str], *, anywhere: bool) -> HistoryPage:
    """Return the content of the page for these parameters."""
    rows = visible_jobs().defer("result")
    roots = known_roots()
    page = HistoryPage(
        words={"job": _DEFAULT_JOB} | params,
        policy=read_policy(),
        anywhere=anywhere,
        sentence=Sentence(level="idle", title=""),
        roots=roots,
        earlier=list(rows[:_EARLIER_SHOWN]),
        earlier_in_all=rows.count(),
    )
    if roots:
        page.words.setdefault("root", roots[0].url)
    trouble = None
    try:
        page.fields = fields_of(page.words["job"])
        if page.words.get("root"):
            _read_root(page)
            read_history_request(page.words, anywhere=anywhere)
    except Refused as refused:
        trouble = refused
    page.sentence = _sentence(page, trouble)
    return page


def _read_root(page: HistoryPage) -> None:
    """List the exports at the root; choose the first incarnation and table if none is named."""
    root = root_of(page.words["root"], page.policy, anywhere=page.anywhere)
    try:
        incarnations = incarnations_there(root)
    except Refused:
        # The incarnation and the table may still be typed.
        if page.words.get("incarnation"):
            return
        raise
    if not incarnations:
        raise Refused("it has no export", "Export to it first")
    page.incarnations = [incarnation.name for incarnation in incarnations]
    incarnation_name = page.words.setdefault("incarnation", incarnations[0].name)
    incarnation = next(
        (candidate for candidate in incarnations if candidate.name == incarnation_name), None
    )
    if incarnation is None:
        raise Refused(
            f"nothing is exported of {incarnation_name} there", "Choose another incarnation"
        )
    page.tables = list(incarnation.tables)
    if "table" in page.fields:
        if incarnation.tables:
            page.words.setdefault("table", incarnation.tables[0])
        if page.words.get("table") not in incarnation.tables:
            table_name = page.words.get("table")
            cause = f"no table {table_name} is" if table_name else "no table is"
            raise Refused(f"{cause} exported of {incarnation.name} there", "Choose another")
    for name in page.chosen_tables if "tables" in page.fields else ():
        if name not in incarnation.tables:
            cause = f"no table {name} is exported of {incarnation.name} there"
            raise Refused(cause, "Choose others")


def _sentence(page: HistoryPage, trouble: Refused | None) -> Sentence:
    """Return the sentence about the job, the worst problem first."""
    try:
        page.policy.check()
    except Refused as refused:
        return refusal("idle", "Exports are switched off, and history jobs with them.", refused)
    if not page.words.get("root"):
        return Sentence(
            level="idle",
            title="No export yet.",
            cause="Create one to run history jobs over it.",
            next="export a slice.",
        )
    if trouble is not None:
        return refusal("look", "This job cannot run:", trouble)
    return _ready_sentence(page)


def _ready_sentence(page: HistoryPage) -> Sentence:
    """Return the sentence for a job that can run, which also names the engine."""
    title = f"Ready to show {page.does}."
    try:
        row_limit = most_for_duckdb()
    except SparkProblem as problem:
        return refusal("look", "No job can run:", Refused(problem.cause, problem.remedy))
    causes = [f"DuckDB answers from up to {row_limit:,} rows of Parquet."] if row_limit else []
    if spark_is_there():
        causes.append("Spark answers from more." if row_limit else "Spark answers.")
        next_step = "run it, or change the fields."
        return Sentence(level="ok", title=title, cause=" ".join(causes), next=next_step, ready=True)
    engine = "for more of them Spark" if row_limit else "Spark"
    causes.append(f"But {engine} or its Java is not installed where these pages run.")
    return Sentence(
        level="ok" if row_limit else "look",
        title=title,
        cause=" ".join(causes),
        next="on the worker's machine: pip install '.[spark]' in replview's folder, "
        "apt-get install openjdk-17-jre-headless.",
        ready=True,
    )
