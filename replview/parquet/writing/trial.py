"""Test whether a target can be written: ``python -m replview.parquet.writing.trial TARGET``.

Standard output is ``{}``, or ``{"problem", "remedy"}``.
"""

import sys

from replview.parquet.job_process import say
from replview.parquet.writing.problems import TargetProblem
from replview.parquet.writing.targets import Target, test_write

if __name__ == "__main__":
    try:
        test_write(Target.of(sys.argv[1]))
        say({})
    except TargetProblem as problem:
        say({"problem": problem.cause, "remedy": problem.remedy})
