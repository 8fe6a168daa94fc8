"""The stack without the shop, as ``replview watch`` starts it when nothing else runs."""

import io
import socket
import urllib.request
from pathlib import Path

import pytest

from replview.runtime.data_folder import DataFolder
from replview.runtime.machine import StackProblem, free_port
from replview.runtime.narration import Narration
from replview.runtime.stack import Stack
from replview.runtime.supervisor import Supervisor
from tests.support.processes import processes_naming


def quiet_stack(folder: Path) -> Stack:
    return Stack(
        folder=DataFolder(folder),
        port=free_port(),
        say=Narration(io.StringIO()),
    )


@pytest.mark.slow
def test_a_step_that_fails_stops_what_runs_and_names_its_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = quiet_stack(folder)
    monkeypatch.setattr("replview.runtime.stack.run_module", _fail)
    with pytest.raises(StackProblem, match="the store is made of cheese"):
        stack.start()
    assert processes_naming(folder) == []
    assert stack.folder.holder() is None


def _fail(module: str, argument: str, **given: object) -> None:
    raise StackProblem("the store is made of cheese")


@pytest.mark.long
@pytest.mark.slow
def test_it_runs_without_a_source_and_replaces_a_port_taken_at_the_last_moment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = quiet_stack(folder)
    stack.folder.create()
    launch = Supervisor.launch
    with socket.socket() as thief:

        def steal_first(supervisor: Supervisor) -> None:
            port = int((folder / "store.port").read_text())
            if thief.getsockname()[1] == 0:
                thief.bind(("127.0.0.1", port))
                thief.listen()
            launch(supervisor)

        monkeypatch.setattr(Supervisor, "launch", steal_first)
        stack.start()
        stolen = thief.getsockname()[1]
    try:
        assert int((folder / "store.port").read_text()) != stolen
        with urllib.request.urlopen(stack.url) as answer:
            assert answer.status == 200
        assert not (folder / "source").exists()
        assert "REPLVIEW_STORE_URL=" in (folder / "env").read_text()
    finally:
        stack.stop()
    assert processes_naming(folder) == []
