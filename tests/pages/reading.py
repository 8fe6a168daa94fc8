"""Pages as text that a test can look into."""


def spaced(page: str) -> str:
    """Every run of whitespace as one space, as a browser shows it: templates end lines anywhere."""
    return " ".join(page.split())
