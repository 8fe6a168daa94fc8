"""Compares the HTML of pages about histories with what the source noted."""

import re
import time
from collections import Counter
from collections.abc import Iterator

from django.test import Client

from replview.store.dsn import set_dsn
from replview.store.models import Transaction
from replview.store.retention.tidy import make_partitions
from tests.store.read.answers import Played, of_table, perhaps
from tests.support.histories import Open
from tests.support.history_tables import Fact
from tests.support.page_elements import Element, elements
from tests.support.recording import Recording
from tests.support.sampling import sample_source

#: By the table's first name and operation.
Counts = Counter[tuple[str, str]]


def _page(browser: Client, address: str) -> Element:
    answer = browser.get(address)
    assert answer.status_code == 200, address
    return elements(answer.content.decode())


def _number(text: str) -> int:
    return int(re.sub(r"\D", "", text))


def _copied(row: Element) -> str:
    """The name of a line, as it is copied."""
    return row.one("td", "col-name").one("button").attributes["data-copy"]


def _operations(shown: Element) -> Counter[str]:
    """``I 5 U 7``; a message without a number is none."""
    found: Counter[str] = Counter()
    for operation in shown.all("span", "op"):
        numbers = [e.text for e in operation.all("span") if "visually-hidden" not in e.classes]
        found[operation.one("b").text] += sum(map(_number, numbers))
    return +found


def _touched(shown: Element) -> Counts:
    """Return the counts in a line's tables: the visible ones, and those in the tip."""
    found: Counts = Counter()
    for table in shown.all("span", "touched"):
        name = of_table(table.one("code").text)
        found += Counter({(name, op): n for op, n in _operations(table).items()})
    for more in shown.all("span", "more-tables"):
        for each in more.attributes["data-tip"].split("; "):
            called, *counts = each.split(" ")
            pairs = zip(counts[::2], counts[1::2], strict=True)
            found += Counter({(of_table(called), op): _number(number) for op, number in pairs})
    return found


def _noted(facts: list[Fact]) -> Counts:
    return Counter((fact.table, fact.op) for fact in facts)


def hold_pages(played: Played, browser: Client) -> None:
    """The counts on the pages of transactions, relations and actors."""
    _hold_list(played, browser)
    for commit in played.some(played.histories.commits, 4):
        _hold_transaction(played, browser, played.transactions[commit.xid], commit.changes)
    everything = [fact for commit in played.histories.commits for fact in commit.changes]
    slot = played.recording.slot
    of_tables: Counts = Counter()
    for row in _page(browser, f"/relations/?slot={slot}").one("tbody").all("tr"):
        [named] = [e for e in row.one("td", "col-table").all() if "title" in e.attributes]
        name = of_table(named.attributes["title"].removeprefix("public."))
        operations = _operations(row.one("td", "col-counts"))
        of_tables += Counter({(name, op): n for op, n in operations.items() if op != "S"})
    assert of_tables == _noted(everything)
    if any(perhaps(played, commit) for commit in played.histories.commits):
        return
    of_actors: Counts = Counter()
    for row in _page(browser, f"/actors/?slot={slot}").one("tbody").all("tr"):
        actor = next(row.one("td", "col-actor").all("a")).attributes.get("title", "")
        operations = _operations(row.one("td", "col-counts"))
        of_actors += Counter({(actor, op): n for op, n in operations.items() if op != "M"})
    assert of_actors == Counter((fact.actor, fact.op) for fact in everything)


def _hold_list(played: Played, browser: Client) -> None:
    """Two pages of the list of transactions."""
    by_pk = {str(t.pk): t for t in played.transactions.values()}
    facts = {commit.xid: commit.changes for commit in played.histories.commits}
    address, seen = f"/transactions/?slot={played.recording.slot}", 0
    for _ in range(2):
        page = _page(browser, address)
        for row in (row for row in page.all("tr") if "data-tx" in row.attributes):
            transaction = by_pk.get(row.attributes["data-tx"])
            if transaction is None or transaction.xid is None:
                continue
            changes = facts.get(transaction.xid, [])
            assert _touched(row.one("td", "col-tables")) == _noted(changes), transaction
            shown = _number(row.one("td", "col-changes").text)
            assert shown == len(changes) + transaction.messages, transaction
            seen += 1
        older = next(page.all("a", rel="next"), None)
        if older is None:
            break
        address = older.attributes["href"]
    assert seen > 40 or not played.histories.name.is_whole


def _hold_transaction(
    played: Played, browser: Client, transaction: Transaction, facts: list[Fact]
) -> None:
    page = _page(browser, f"/transactions/{transaction.pk}/")
    found, whole = Counts(), Counter[str]()
    for item in page.one("nav", "side-tables").all("li"):
        operations, named = _operations(item), next(item.all("span", "mono"))
        if called := named.attributes.get("data-tip", ""):
            name = of_table(called.removeprefix("public."))
            found += Counter({(name, op): n for op, n in operations.items()})
        elif named.text == "All tables":
            whole = operations
    assert found == _noted(facts), transaction
    tally = Counter(fact.op for fact in facts)
    assert not whole or whole - Counter(M=whole["M"]) == tally, transaction
    rows = sum(number for op, number in tally.items() if op in "IUD")
    said = re.findall(r"changed ([\d,]+) rows?", page.one("h1").text)
    assert [_number(each) for each in said] == [rows] * len(said), transaction


def hold_in_flight(recording: Recording, browser: Client, there: list[Open]) -> None:
    """Assert that *In flight* lists what is open on the source, with the changes that were sent."""
    slot, source = recording.slot, recording.source
    _sample(recording)
    shown = _page(browser, f"/in-flight/?slot={slot}&rows=1000")
    listed = dict(_on_source(shown))
    with source.connect() as session:
        prepared = {gid for (gid,) in session.execute("SELECT gid FROM pg_prepared_xacts")}
    assert prepared == {each.gid for each in there if each.gid}
    assert {name for name, state in listed.items() if state == "prepared"} == prepared
    assert {f"pid {each.pid}" for each in there if not each.gid} <= listed.keys()
    deadline = time.monotonic() + 20
    while (wrong := _in_flight_wrong(recording, browser, there)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not wrong


def _sample(recording: Recording) -> None:
    source = recording.slot.source
    source.refresh_from_db()
    set_dsn(source, recording.source.dsn)
    source.save()
    make_partitions()
    assert sample_source(source) is None


def _on_source(page: Element) -> Iterator[tuple[str, str]]:
    """Yield the gid, pid or slot, and the state, of each row that holds back slots or vacuum."""
    for row in page.all("tr", "open-there"):
        yield _copied(row), row.one("td", "col-state").text


def _in_flight_wrong(recording: Recording, browser: Client, there: list[Open]) -> list[object]:
    """Return the transactions that the page lists otherwise than their sessions know them.

    A stream may not have been sent yet.
    """
    page = _page(browser, f"/in-flight/?slot={recording.slot}&rows=1000")
    rows = [row for table in page.all("table", "flight-table") for row in table.all("tr")
            if "data-tx" in row.attributes and "detail" not in row.classes]  # fmt: skip
    listed = {_copied(row): _touched(row.one("td", "col-tables")) for row in rows}
    known = {each.gid or str(each.xid): each for each in there}
    wrong: list[object] = [name for name in listed if name not in known]
    for name, each in known.items():
        shown = listed.get(name)
        is_wrong = shown is not None and not shown <= each.changes
        if is_wrong or (each.gid and each.changes and shown != each.changes):
            wrong.append((each, shown))
    return wrong
