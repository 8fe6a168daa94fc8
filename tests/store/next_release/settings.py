"""replview's settings with the app of this folder."""

from replview.settings import *  # noqa: F403
from replview.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.store.next_release"]
