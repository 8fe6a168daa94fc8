"""Describes the machine of a benchmark, and warns if other programs used it too."""

import os
import platform
import re
import statistics
import subprocess
import tempfile
import time

import psutil

from replview.runtime.servers.server_programs import pg_bin

#: With more of all cores busy before we begin, figures say more of the neighbours than of us.
_BUSY_PERCENT = 15.0
_LOOK_SECONDS = 2.0
#: About the WAL of one full batch in the store, which waits for this at its commit.
_FLUSHED_BYTES = 8 * 1024 * 1024


def describe() -> str:
    """One line: cores, memory, versions, disk, load."""
    said = subprocess.run(
        [pg_bin(18) / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"\d+\.\d+", said)
    version = found[0] if found else said.strip()
    one, five, _ = os.getloadavg()
    return (
        f"{os.cpu_count()} cores ({_processor()}), {psutil.virtual_memory().total / 1e9:.0f} GB; "
        f"Python {platform.python_version()}, PostgreSQL {version}; "
        f"{_flush_seconds() * 1000:.0f} ms to flush {_FLUSHED_BYTES >> 20} MB to disk; "
        f"load {one:.1f} (1 min), {five:.1f} (5 min)"
    )


def warning() -> str:
    """A warning when other processes keep the processors busy; else nothing."""
    busy_percent = psutil.cpu_percent(interval=_LOOK_SECONDS)
    if busy_percent <= _BUSY_PERCENT:
        return ""
    return (
        f"WARNING: other processes take {busy_percent:.0f} % of the processors now. Ratios of "
        "things measured in turn suffer less than absolute figures, but none can be trusted."
    )


def _flush_seconds() -> float:
    """Return the median seconds in which the disk of temporary files flushes one batch."""
    block, found = os.urandom(_FLUSHED_BYTES), []
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(5):
            file.seek(0)
            started = time.monotonic()
            file.write(block)
            os.fdatasync(file.fileno())
            found.append(time.monotonic() - started)
    return statistics.median(found)


def _processor() -> str:
    """The processor's name where the system tells it."""
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()
