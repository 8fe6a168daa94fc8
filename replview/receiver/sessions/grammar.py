"""Quoting for the grammar of replication commands, which takes no parameters."""


def quote_identifier(name: str) -> str:
    """``name`` as a quoted identifier of the replication grammar."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """``text`` as a literal of the replication grammar, which knows no escapes but ``''``."""
    return "'" + text.replace("'", "''") + "'"
