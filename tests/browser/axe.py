"""A page through axe: its serious and critical findings."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

#: The Web Content Accessibility Guidelines and axe's own good practices.
OPTIONS = {"resultTypes": ["violations"]}


def findings(page: Page, options: dict[str, object] = OPTIONS) -> list[str]:
    """Return the serious and critical findings of axe on the page, each with its elements."""
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{violation['id']} ({violation['impact']}): {violation['help']}: "
        + "; ".join(" ".join(node["target"]) for node in violation["nodes"][:5])
        for violation in found
        if violation["impact"] in ("serious", "critical")
    ]
