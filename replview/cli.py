"""The ``replview`` command runs Django's management commands under its own name."""

import os
import signal
import sys

import replview


def main() -> None:
    """Run one of replview's commands; ``replview help`` lists them."""
    # Files that a command writes (exports, an instance's data) are for its user only.
    os.umask(os.umask(0o077) | 0o077)
    if sys.argv[1:] in (["--version"], ["version"]):
        # Django would print its own version.
        print(replview.__version__)
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "replview.settings")
    # End quietly when a reader closes the pipe (``replview changes | head``).
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    _let_data_option_choose_the_instance(sys.argv)

    import django
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        if sys.argv[1:] in ([], ["-h"], ["--help"], ["help"]):
            from replview.management.plain_help import index

            django.setup()
            print(index())
            return
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"replview: {error}")


def _let_data_option_choose_the_instance(argv: list[str]) -> None:
    """Set the data folder from ``--data``, before the settings are read."""
    for position, argument in enumerate(argv):
        if argument == "--data" and position + 1 < len(argv):
            os.environ["REPLVIEW_DATA"] = argv[position + 1]
        elif argument.startswith("--data="):
            os.environ["REPLVIEW_DATA"] = argument.removeprefix("--data=")
