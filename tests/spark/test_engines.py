"""DuckDB and Spark answer every question alike; DuckDB as the source's own triggers noted it."""

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from replview.parquet.writing import layout
from replview.parquet.writing.targets import Target
from replview.spark.__main__ import main, parser
from replview.spark.history.commands import JOBS, Question
from replview.spark.history.engines import MOST_FOR_DUCKDB, VARIABLE, by_duckdb, duckdb
from replview.spark.history.results import as_json, write
from replview.spark.history.snapshots import as_of
from replview.spark.processes import JobProcess
from replview.spark.sessions import SparkProblem
from tests.spark.exporting import exported
from tests.spark.printed_programs import ODD, statements
from tests.support.written_history import V1, History, column

TABLE = (
    f"""CREATE TABLE t (id bigint PRIMARY KEY, mail text NOT NULL, "{ODD.replace('"', '""')}" text,
        big text, price numeric(12,2), at timestamptz, "MAIL" double precision)""",
    "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
    "CREATE UNIQUE INDEX t_mail ON t (mail)",
)
#: What each change did, by the source itself. (In a schema that is not published.)
NOTED = (
    "CREATE TABLE noted (operation text, name text)",
    """CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP <> 'UPDATE' THEN
            INSERT INTO noted VALUES (lower(TG_OP), NULL);
            RETURN NULL;
        END IF;
        INSERT INTO noted SELECT 'update', key FROM jsonb_each_text(to_jsonb(OLD)) o
            JOIN jsonb_each_text(to_jsonb(NEW)) n USING (key)
            WHERE o.value IS DISTINCT FROM n.value;
        RETURN NULL; END $$""",
    "CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON t"
    " FOR EACH ROW EXECUTE FUNCTION note()",
)
MORE = (
    """UPDATE t SET "MAIL" = 'NaN' WHERE id IN (14, 15)""",
    """UPDATE t SET "MAIL" = 'NaN' WHERE id IN (15, 16)""",
    "ALTER TABLE t ALTER price TYPE numeric(14,2)",
    "UPDATE t SET price = 7 WHERE id IN (14, 15)",
    "ALTER TABLE t ALTER at TYPE text USING at::text",
    "UPDATE t SET at = 'later' WHERE id IN (14, 15)",
    "ALTER TABLE t RENAME TO t9",
    "UPDATE t9 SET price = 8 WHERE id IN (14, 15)",
)
MASKED = json.dumps({"public.t": ["price", "big"], "public.t9": ["price", "big"]})
#: Every kind of question, some of a part of the time.
QUESTIONS: dict[str, list[Sequence[str]]] = {
    "as-of": [(), ("--lsn=MIDDLE",), (f"--masked={MASKED}",)],
    "row-versions": [(), (f"--masked={MASKED}",)],
    "churn": [("--every=minute",), ("--every=week", "--from-lsn=MIDDLE")],
    "hot-rows": [("--top=100",), ("--top=3", f"--masked={MASKED}")],
    "transaction-sizes": [(), ("--to-lsn=MIDDLE",)],
    "transaction-rates": [("--every=month",), ("--since=2000-01-01", "--until=2001-01-01")],
    "who-changed-what": [(), ("--from-lsn=MIDDLE",), (f"--masked={MASKED}",)],
    "schema-versions": [()],
}  # fmt: skip
#: The order of what is not sorted is nobody's business.
UNSORTED = ("as-of", "row-versions")


def asked(name: str, root: Path, *words: str) -> Question:
    table = [] if name.startswith("transaction") else ["--table=t9"]
    return Question.of(parser().parse_args([name, f"--root={root}", *table, *words]))


def answer(session: Any, question: Question) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(as_json(question.answer(session), 100_000))
    if question.options.name in UNSORTED:
        found["rows"].sort(key=json.dumps)
    return found


@pytest.fixture
def altered(source, record, store_dsn, tmp_path) -> tuple[Path, Counter[Any], list[Any]]:
    """A history of all that is awkward, in three pieces; what its source noted, and holds."""
    source.run(*TABLE, *NOTED)
    recording = record(source, publish="TABLE t")
    done = 0
    for n, statement in enumerate([*statements(), *MORE]):
        source.run(statement)
        # Read later, the catalog does not tell whether a shape is the same.
        recording.caught_up()
        if n in (8, len(statements()) + 3):
            done = exported(store_dsn, recording, tmp_path / "out", after=done)
    recording.end()
    exported(store_dsn, recording, tmp_path / "out", after=done)
    with source.connect() as session:
        noted = session.execute("SELECT operation, name, count(*) FROM noted GROUP BY 1, 2")
        counts = Counter({row[:2]: row[2] for row in noted.fetchall()})
        held = session.execute("SELECT id, mail, price::text, at FROM t9").fetchall()
    return tmp_path / "out", counts, held


@pytest.mark.slow
def test_duckdb_counts_and_holds_what_the_source_did(altered, tmp_path) -> None:
    root, noted, held = altered
    with duckdb(str(tmp_path), Target.of(str(tmp_path))) as session:
        who = answer(session, asked("who-changed-what", root))
        now = answer(session, asked("as-of", root))
        hot = answer(session, asked("hot-rows", root, "--top=1000"))
        churn = answer(session, asked("churn", root, "--every=month"))
    assert {(operation, name): n for _, _, operation, name, n in who["rows"]} == noted
    columns = now["columns"]
    raw = columns.index("_pg_raw")
    rows = [
        {name: row[raw].get(name, row[n]) for n, name in enumerate(columns)} for row in now["rows"]
    ]
    assert sorted((r["id"], r["mail"], r["price"], r["at"]) for r in rows) == sorted(held)
    changes = sum(n for (operation, _), n in noted.items() if operation != "update")
    counted = dict(zip(churn["columns"], churn["rows"][0], strict=True))
    assert counted["inserts"] + counted["deletes"] == changes
    total = hot["columns"].index("changes")
    assert sum(row[total] for row in hot["rows"]) == counted["changes"]


@pytest.mark.slow
@pytest.mark.own_jvm
def test_both_engines_give_the_same_answer(altered, tmp_path, spark) -> None:
    assert {*QUESTIONS} == {*JOBS}
    root, _, _ = altered
    dataset = asked("as-of", root).tables[0]
    first = dataset.incarnation.wholes[0].part
    folder = root / dataset.incarnation.folder / layout.TRANSACTIONS
    transactions = pads.dataset(folder, format="parquet", partitioning="hive").to_table()
    [lsn] = [
        row["commit_lsn"]
        for row in transactions.to_pylist()
        if row["commit_seq"] == first.through_seq
    ]
    differ = []
    for name, variants in QUESTIONS.items():
        for number, words in enumerate(variants):
            question = asked(name, root, *(word.replace("MIDDLE", lsn) for word in words))
            outputs = [tmp_path / f"{engine}-{name}-{number}" for engine in ("duckdb", "spark")]
            with duckdb(str(tmp_path), Target.of(str(tmp_path))) as session:
                by_duckdb = answer(session, question)
                kinds = number or written(question, session, outputs[0])
            if by_duckdb != answer(spark, question):
                differ.append((name, words))
            if not number and kinds != (others := written(question, spark, outputs[1])):
                differ.append((name, kinds, others))
    assert not differ, differ


def written(question: Question, session: Any, output: Path) -> list[tuple[str, str]]:
    """The columns that the job's Parquet has, and their types; of times as our sessions write."""
    write(question.answer(session), str(output))
    return [
        (
            field.name,
            "time"
            if pa.types.is_timestamp(field.type)
            else str(field.type).replace(" not null", ""),
        )
        for field in pads.dataset(output).schema
    ]


@pytest.mark.own_jvm
@pytest.mark.slow
def test_spark_scans_what_it_reads_at_most_four_times(tmp_path, spark) -> None:
    history = History(tmp_path)
    history.commit(*(("I", {"id": n, "a": "x", "big": "b"}) for n in range(9)))
    history.commit(("U", {"id": 10, "a": "y"}, {"id": 1}), ("U", {"id": 2, "a": "z"}))
    history.write()
    question = Question.of(parser().parse_args(["who-changed-what", f"--root={tmp_path}"]))
    before = {each.executionId() for each in executions(spark)}
    result = question.answer(spark)
    # As the command does.
    result.frame.persist()
    write(result, str(tmp_path / "answer"))
    assert json.loads(as_json(result, 10))["rows"]
    found = scans(spark, before)
    changes = [columns for columns in found if "_change_type" in columns]
    assert 0 < len(changes) <= 4
    assert len(found) - len(changes) == 1


def executions(spark: Any) -> list[Any]:
    found = spark._jsparkSession.sharedState().statusStore().executionsList()
    return [found.apply(n) for n in range(found.size())]


def scans(spark: Any, before: set[int]) -> list[str]:
    """What columns each scan read that Spark ran since, by its own account of its plans."""
    store = spark._jsparkSession.sharedState().statusStore()
    found: dict[int, str] = {}
    for number in {each.executionId() for each in executions(spark)} - before:
        done, nodes = store.executionMetrics(number), store.planGraph(number).allNodes()
        for node in (nodes.apply(n) for n in range(nodes.size())):
            if node.name().startswith("Scan parquet"):
                metrics = [node.metrics().apply(n) for n in range(node.metrics().size())]
                [files] = [each for each in metrics if each.name() == "number of files read"]
                if done.contains(files.accumulatorId()):
                    # One of a frame that is kept stands in each plan that uses it.
                    found[files.accumulatorId()] = node.desc()
    return list(found.values())


def test_the_number_of_rows_chooses_the_engine(monkeypatch, tmp_path, capsys) -> None:
    assert by_duckdb(MOST_FOR_DUCKDB)
    assert not by_duckdb(MOST_FOR_DUCKDB + 1)
    monkeypatch.setenv(VARIABLE, "7")
    assert (by_duckdb(7), by_duckdb(8), by_duckdb(8, most=8)) == (True, False, True)
    assert not by_duckdb(0, most=0)
    monkeypatch.setenv(VARIABLE, "all")
    with pytest.raises(SparkProblem, match=f"{VARIABLE} is no number of rows"):
        by_duckdb(1)

    history = History(tmp_path / "root")
    history.commit(*(("I", {"id": n, "a": "x", "big": "b"}) for n in range(7)))
    history.write()
    monkeypatch.setenv(VARIABLE, "7")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    words = ["hot-rows", f"--root={tmp_path / 'root'}", "--table=t", "--json"]
    output = tmp_path / "out"
    assert main([*words, f"--output={output}"]) == 0
    details = json.loads(capsys.readouterr().out)["details"]
    assert (details["answered_by"], details["rows_read"]) == ("DuckDB", 7)
    assert pads.dataset(output).count_rows() == 7
    assert not [*scratch.iterdir()]
    monkeypatch.setattr("replview.spark.__main__.session", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main([*words, "--spark-above=6"])


def test_a_small_question_needs_neither_pandas_nor_what_reads_the_store(tmp_path) -> None:
    history = History(tmp_path)
    history.commit(("I", {"id": 1, "a": "x", "big": "b"}))
    history.write()
    words = ["who-changed-what", f"--root={tmp_path}", "--json"]
    ran = subprocess.run([sys.executable, "-X", "importtime", "-m", "replview.spark", *words],
                         capture_output=True, text=True, check=True)  # fmt: skip
    assert json.loads(ran.stdout)["rows"] == [[None, "public.t", "insert", None, 1]]
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "replview.spark.history.row_replay" in loaded
    # One that is refused is listed, too.
    assert loaded.isdisjoint(["pandas.core", "pyspark", "replview.spark.history.record"])


def test_duckdb_has_no_network_no_files_and_no_extensions(tmp_path) -> None:
    engine = pytest.importorskip("duckdb")
    (tmp_path / "secret.csv").write_text("a\n1\n")
    (tmp_path / "spill").mkdir()
    with duckdb(str(tmp_path / "spill"), Target.of(str(tmp_path / "root"))) as session:
        for statement in (
            f"SELECT * FROM read_csv('{tmp_path}/secret.csv')", f"FROM '{tmp_path}/secret.csv'",
            f"COPY (SELECT 1) TO '{tmp_path}/written.csv'", "INSTALL httpfs", "LOAD httpfs",
            f"ATTACH '{tmp_path}/other.db'", "SET memory_limit = '100GB'",
            "SET enable_external_access = true", "SET autoinstall_known_extensions = true",
        ):  # fmt: skip
            with pytest.raises(engine.Error):
                session.connection.execute(statement)
        settings = "memory_limit", "temp_directory", "autoload_known_extensions"
        chosen = [f"current_setting('{each}')" for each in settings]
        [found] = session.connection.execute(f"SELECT {', '.join(chosen)}").fetchall()
    assert found == ("1.0 GiB", str(tmp_path / "spill"), False)


@pytest.mark.parametrize("name", ["root", "[r]oot"])
def test_names_that_differ_in_case_alone_are_two_columns(tmp_path, name) -> None:
    # Of the second, and of an object store, pyarrow reads the files.
    history = History(tmp_path / name)
    history.versions.pop()
    history.becomes(*V1, column("A", "text"), column("a.b", "bigint"), column("n", "numeric"))
    far = 9007199254740993
    # (In the files the second has another name.)
    row = {"id": 1, "a": "x", "A": "", "A_2": "y", "big": "b", "a.b": far, "n": "NaN"}
    history.commit(("T",), ("I", row))
    history.commit(("U", row | {"A_2": "z", "a.b": far + 1}))
    dataset = history.write()
    question = Question.of(parser().parse_args(["who-changed-what", f"--root={tmp_path / name}"]))
    with duckdb(str(tmp_path), Target.of(str(tmp_path))) as session:
        found = answer(session, question)
        counts = {(operation, name): n for _, _, operation, name, n in found["rows"]}
        assert counts == {("insert", None): 1, ("update", "A"): 1, ("update", "a.b"): 1}
        [row] = as_of(session, dataset).frame.collect()
    names = ("a", "A_2", "big", "a.b", "n")
    assert [row[name] for name in names] == ["x", "z", "b", far + 1, "NaN"]


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.3])
def test_a_signal_ends_a_question_and_its_files_go_along(tmp_path, seconds) -> None:
    # While DuckDB is imported, is opened, or reads.
    history = History(tmp_path / "root")
    rows = [("I", {"id": n, "a": "x", "big": "b"}) for n in range(20_000)]
    history.commit(*rows)
    history.write()
    [file] = (tmp_path / "root").glob("*/*/public.t/*/*.parquet")
    for number in range(1, 60):
        shutil.copy(file, file.with_name(f"part-{number}.zstd.parquet"))
    job = JobProcess.start(
        ["row-versions", f"--root={tmp_path / 'root'}", "--table=t"], log=tmp_path / "log",
        scratch=tmp_path / "scratch", output=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 60
    while not [*job.scratch.glob("replview-history-*")]:
        assert time.monotonic() < until
        time.sleep(0.02)
    time.sleep(seconds)
    job.process.terminate()
    assert job.wait(60) == 143
    assert [path.name for path in job.scratch.iterdir()] == ["lock"]
    job.end()
    assert not [*(tmp_path / "scratch").iterdir()]
    assert '"rows_read":1200000}' in (tmp_path / "log").read_text()
