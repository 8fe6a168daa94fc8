"""One of replview's processes by itself, for whoever has a process manager: ``up --only``.

The command becomes the process: signals, output and exit status are the program's own, and the
one who started it (systemd, a container) restarts it.
"""

import os
from typing import NoReturn

from replview.runtime import programs
from replview.runtime.data_folder import DataFolder
from replview.runtime.environment import for_programs
from replview.runtime.supervisor import CODE_FOLDER, Program

#: In the order in which ``up`` lists them.
KINDS = ("web", "receivers", "tasks", "beat")


def program(kind: str, *, folder: DataFolder, host: str, port: int, name: str = "") -> Program:
    """The process of this kind; ``name`` tells workers of one kind on one host apart."""
    if kind == "web":
        return programs.web(host, port)
    if kind == "beat":
        return programs.beat(folder.run)
    worker = {"receivers": programs.receivers_worker, "tasks": programs.tasks_worker}[kind]
    return worker(name or kind)


def become(wanted: Program, folder: DataFolder) -> NoReturn:
    """Turn this process into that program."""
    environment = {
        **for_programs(),
        "PYTHONUNBUFFERED": "1",
        "REPLVIEW_DATA": str(folder.path),
        "DJANGO_SETTINGS_MODULE": "replview.settings",
    }
    os.chdir(CODE_FOLDER)
    os.execve(wanted.argv[0], list(wanted.argv), environment)
