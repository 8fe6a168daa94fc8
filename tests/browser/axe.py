"""A page through axe: its serious and critical findings."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

#: What the Web Content Accessibility Guidelines ask for, and axe's own good practice.
OPTIONS = {"resultTypes": ["violations"]}


def findings(page: Page, options: dict[str, object] = OPTIONS) -> list[str]:
    """What axe calls serious or critical on the page as it stands, with where it is."""
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{violation['id']} ({violation['impact']}): {violation['help']}: "
        + "; ".join(" ".join(node["target"]) for node in violation["nodes"][:5])
        for violation in found
        if violation["impact"] in ("serious", "critical")
    ]
