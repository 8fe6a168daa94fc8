"""``replview lake add|run|status|maintain|schedule|remove``: tables in Delta or Iceberg."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from django.core.management.base import CommandError

from replview.features.lake.facts import KINDS, behind_text, lake_facts
from replview.features.lake.job import Report, carry_out
from replview.features.lake.request import add, remove, request_run, set_schedule
from replview.management import instance
from replview.spark.exit_statuses import FAILED
from replview.store.models import Lake, LakeRun
from replview.store.write.access_record import command_user
from replview.text.formats import bytes_words, count_words, plural
from replview.text.parsing import whole_number


class Command(instance.Actions, instance.InstanceCommand):
    """The command that adds, runs, shows, maintains, schedules and removes lakes."""

    help = (
        "Keep tables of a slot in Delta or Iceberg: every change in 'changes', and the rows as "
        "they are now in 'current'. A run goes on in this process. Exit status of run and "
        "maintain: 0 done, 1 failed, 2 nothing new, 3 over a gap, 64 wrong options or no instance."
    )
    examples = (
        "replview lake add orders --slot shop/replview --root /srv/lake --format delta "
        "--table public.orders",
        "replview lake run orders",
        "replview lake status",
    )
    wrong_use_status = instance.WRONG_USE

    def add_actions(self, actions: Any) -> None:
        """Add the parsers of the actions on lakes."""
        _add_adding(actions.add_parser("add", help="choose tables of a slot, and where they are "
                                       "kept; the first run makes them"))  # fmt: skip
        run = actions.add_parser("run", help="read what is stored since the last run")
        until = run.add_mutually_exclusive_group()
        until.add_argument("--available-now", action="store_true",
                           help="end when everything stored now is read (the default)")  # fmt: skip
        until.add_argument("--follow", type=float, metavar="SECONDS",
                           help="run again so long after each run, until stopped")  # fmt: skip
        run.add_argument("--changes", type=int, metavar="NUMBER",
                         help="of one batch, about (default: 1000000)")  # fmt: skip
        maintain = actions.add_parser("maintain", help="compact files, and delete what only "
                                      "versions of more than seven days ago need")  # fmt: skip
        for action in (run, maintain):
            action.add_argument("--spark", metavar="URL", help="local[2], spark://… (default: "
                                "REPLVIEW_SPARK, else local[2])")  # fmt: skip
        status = actions.add_parser("status", help="show how far the tables are, as of the last "
                                    "run, and how far behind the store")  # fmt: skip
        schedule = actions.add_parser("schedule", help="have a worker run a lake regularly")
        schedule.add_argument("name", metavar="NAME")
        schedule.add_argument("minutes", metavar="MINUTES|off",
                              help="between the beginnings of two runs")  # fmt: skip
        removal = actions.add_parser("remove", help="forget a lake; its tables stay unless "
                                     "--delete-tables is given")  # fmt: skip
        removal.add_argument("--delete-tables", action="store_true",
                             help="delete its tables, with all their files, as well")  # fmt: skip
        removal.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        for action in (run, maintain, removal):
            action.add_argument("name", metavar="NAME")
        status.add_argument("name", nargs="?", metavar="NAME", help="(default: all lakes)")
        for action in (run, maintain, status):
            action.add_argument("--json", action="store_true", help="print JSON")

    def _add(self, options: dict[str, Any]) -> None:
        slot = instance.find_slot(options["slot"])
        lake = Lake(name=options["name"], slot=slot, format=options["format"],
                    root=options["root"], connector=options["connector"],
                    added_by=command_user())  # fmt: skip
        add(lake, options["table"], anywhere=True, base=Path.cwd())
        self.say(f"lake {lake}: {plural(lake.relations.count(), 'table')} of {slot} in {lake.root}",
                 f"nothing is written yet: replview lake run {lake}")  # fmt: skip

    def _run(self, options: dict[str, Any]) -> None:
        if options["follow"] is not None and options["follow"] <= 0:
            raise CommandError("--follow is above 0 seconds", returncode=instance.WRONG_USE)
        if options["changes"] is not None and options["changes"] < 1:
            raise CommandError("--changes is at least 1", returncode=instance.WRONG_USE)
        self._carry_out(LakeRun.Action.RUN, options)

    def _maintain(self, options: dict[str, Any]) -> None:
        self._carry_out(LakeRun.Action.MAINTAIN, options)

    def _carry_out(self, action: LakeRun.Action, options: dict[str, Any]) -> None:
        """Do a run in this process, so that no worker is needed, and exit with its status."""
        names = ("spark", "changes", "follow")
        words = {name: options[name] for name in names if options.get(name)}
        run = request_run(_lake(options["name"]), action, by=command_user(),
                          how=LakeRun.How.COMMAND, words=words)  # fmt: skip
        with instance.stopping_on_signals() as stop:
            carry_out(run, stop, self._report_printer(as_json=options["json"]))
        run.refresh_from_db()
        if run.state == LakeRun.State.CANCELLED and "follow" in words:
            return
        if run.state != LakeRun.State.DONE:
            table = f"{run.reading}: " if run.reading and run.problem_cause else ""
            cause = f"run {run.pk} {run.state}: {table}{run.problem_cause or 'it was stopped'}"
            remedy = f". {run.problem_remedy}" if run.problem_remedy else ""
            raise CommandError(f"{cause}{remedy}", returncode=FAILED)
        if status := (run.result or {})["status"]:
            reason = {2: "nothing is new", 3: "history has a gap: see 'replview lake status'"}
            raise CommandError(reason[status], returncode=status)

    def _report_printer(self, *, as_json: bool) -> Callable[[Report], None]:
        def show(report: Report) -> None:
            if as_json:
                self.say(orjson.dumps(report).decode())
            elif text := _report_text(report):
                self.say(text)

        return show

    def _status(self, options: dict[str, Any]) -> None:
        lakes = [_lake(options["name"])] if options["name"] else Lake.objects.all()
        facts = [lake_facts(lake) for lake in lakes]
        if options["json"]:
            self.say(orjson.dumps(facts, option=orjson.OPT_INDENT_2).decode())
            return
        tables = [{"lake": lake["name"], **table} for lake in facts for table in lake["tables"]]
        self.say_facts(tables, "text", "no lakes yet: see 'replview lake add --help'", _status_row)

    def _schedule(self, options: dict[str, Any]) -> None:
        lake, text = _lake(options["name"]), options["minutes"]
        minutes = whole_number(text)
        if minutes is None and text != "off":
            raise CommandError(f"{text} is no number of minutes, and not 'off'",
                               returncode=instance.WRONG_USE)  # fmt: skip
        set_schedule(lake, minutes)
        self.say(f"lake {lake} runs every {plural(minutes, 'minute')}" if minutes else
                 f"lake {lake} runs only when somebody asks")  # fmt: skip

    def _remove(self, options: dict[str, Any]) -> None:
        lake, delete = _lake(options["name"]), options["delete_tables"]
        names = ", ".join(relation.name for relation in lake.relations.all())
        fate = "delete its tables" if delete else "keep its tables where they are"
        self.agree(f"Forget lake {lake} ({names}, in {lake.root}) and {fate}?", options["yes"])
        deleted = remove(lake, delete_tables=delete)
        self.say(f"lake {options['name']} is removed", *(f"deleted {path}" for path in deleted))


def _add_adding(parser: Any) -> None:
    """Add the arguments of a new lake."""
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--slot", required=True, metavar="[SOURCE/]NAME")
    parser.add_argument("--root", required=True, metavar="FOLDER|URL",
                        help="its folder, or a URL such as s3://bucket/folder")  # fmt: skip
    parser.add_argument("--format", required=True, choices=Lake.Format.values)
    parser.add_argument("--table", required=True, action="append", metavar="SCHEMA.TABLE",
                        help="may be repeated")  # fmt: skip
    parser.add_argument("--connector", default="", metavar="COORDINATES",
                        help="Maven's, or 'none' if Spark has the connector (default: the one for "
                        "the installed Spark)")  # fmt: skip


def _lake(name: str) -> Lake:
    """Return the lake of this name. Raises ``CommandError`` that lists the known lakes."""
    lake = Lake.objects.select_related("slot__source").filter(name=name).first()
    if lake is None:
        known = ", ".join(Lake.objects.values_list("name", flat=True)) or "none yet"
        raise CommandError(
            f"there is no lake {name}; known: {known}. See 'replview lake status'",
            returncode=instance.WRONG_USE,
        )
    return lake


def _report_text(report: Report) -> str:
    """Return the line for a report of a run; empty: it needs none."""
    table = report.get("table")
    if table is None:
        return ""
    if report["state"] == "running":
        if "of" not in report:
            return f"{table}: begun"
        return f"{table}: {count_words(report['changes'])} of {plural(report['of'], 'change')}"
    if "problem" in report:
        return f"{table}: failed: {report['problem']}. {report['remedy']}"
    batches = f"{plural(report['batches'], 'batch', 'batches')}; " if "batches" in report else ""
    sizes = "; ".join(f"{kind} has {_size_text(report['sizes'][kind])}" for kind in KINDS)
    return f"{table}: {batches}{sizes}"


def _size_text(size: dict[str, int]) -> str:
    rows, files = plural(size["rows"], "row"), plural(size["files"], "file")
    return f"{rows} in {files}, {bytes_words(size['bytes'])}"


def _status_row(table: dict[str, Any]) -> dict[str, str]:
    """Return the line of a table of a lake."""
    row = {name: table[name] for name in ("lake", "table", "state")}
    row["behind"] = behind_text(table)
    row |= {kind: "unknown" if table[kind] is None else _size_text(table[kind]) for kind in KINDS}
    row["gaps"] = count_words(len(table["gaps"]))
    row["last run"] = table["reported_at"] or "never"
    row["problem"] = ". ".join(filter(None, (table["problem"], table["remedy"])))
    return row
