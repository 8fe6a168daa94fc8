"""A transaction for browsers: cells are rendered once, and hide what an account may not see."""

from replview.live.summaries import summarise
from tests.support.transaction_line import line


def test_browsers_of_equal_rights_share_the_cells() -> None:
    summary = summarise(line(size_bytes=2048).row, {})

    first, second = (summary.for_browser(tells_size=True)["cells"] for _ in range(2))
    assert first is second
    assert "2\N{NO-BREAK SPACE}kB" in first


def test_a_restricted_account_gets_cells_without_the_size() -> None:
    summary = summarise(line(size_bytes=2048, messages=1, inserts=0).row, {})
    summary.for_browser(tells_size=True)

    sent = summary.for_browser(tells_size=False)
    assert "withheld" in sent["cells"]
    assert "2\N{NO-BREAK SPACE}kB" not in sent["cells"]
    assert 2048 not in sent.values()
