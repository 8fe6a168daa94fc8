"""Helpers that tests of several folders share."""

import pkgutil
import sys

if pytest := sys.modules.get("pytest"):
    # pytest shows the values of a failed assertion, outside of test modules, only on request.
    pytest.register_assert_rewrite(
        *(f"{__name__}.{m.name}" for m in pkgutil.iter_modules(__path__))
    )
