"""Names, texts and addresses as Python, SQL and Spark write them."""

from collections.abc import Sequence


def py(text: str) -> str:
    """A string of Python, in double quotes where that is as good."""
    shown = repr(text)
    plain = shown.startswith("'") and '"' not in text and "'" not in text
    return f'"{shown[1:-1]}"' if plain else shown


def py_list(texts: Sequence[str]) -> str:
    """A list of strings of Python."""
    return f"[{', '.join(py(each) for each in texts)}]"


def py_text(text: str) -> str:
    """A string of Python over several lines."""
    escaped = text.replace("\\", "\\\\")
    escaped = escaped.replace('"', '\\"') if '"""' in text else escaped
    guard = "\n" if escaped.endswith('"') else ""
    return f'"""{escaped}{guard}"""'


def literal(text: str) -> str:
    """A string of standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def spark_literal(text: str) -> str:
    """A string of Spark's SQL, which knows escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def double(name: str) -> str:
    """A name of standard SQL."""
    return '"' + name.replace('"', '""') + '"'


def tick(name: str) -> str:
    """A name of Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


#: Spark's words for the schemes that pyarrow has others for.
_SPARK_SCHEMES = {"s3": "s3a", "s3n": "s3a", "gcs": "gs"}


def spark_address(url: str) -> str:
    """A folder's path or URL as Spark spells it, without options."""
    scheme, between, rest = url.partition("://")
    if not between:
        return f"file://{url.rstrip('/')}"
    return f"{_SPARK_SCHEMES.get(scheme, scheme)}://{rest.partition('?')[0].rstrip('/')}"
