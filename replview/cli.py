"""The ``replview`` command: Django's management commands under our own name."""

import os
import signal
import sys

import replview


def main() -> None:
    """Run one of replview's commands; ``replview help`` lists them."""
    # What is written (exports, an instance's data) is for its user alone.
    os.umask(os.umask(0o077) | 0o077)
    if sys.argv[1:] in (["--version"], ["version"]):
        # Django would tell its own.
        print(replview.__version__)
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "replview.settings")
    # A reader that closes the pipe (``replview changes | head``) ends us quietly.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    _let_data_option_choose_the_instance(sys.argv)

    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"replview: {error}")


def _let_data_option_choose_the_instance(argv: list[str]) -> None:
    """Settings are read before a command parses its options: ``--data`` must reach them first."""
    for position, word in enumerate(argv):
        if word == "--data" and position + 1 < len(argv):
            os.environ["REPLVIEW_DATA"] = argv[position + 1]
        elif word.startswith("--data="):
            os.environ["REPLVIEW_DATA"] = word.removeprefix("--data=")
