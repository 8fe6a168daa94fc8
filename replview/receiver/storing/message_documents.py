"""Logical messages as ``change.new`` keeps them."""

from base64 import b64encode
from typing import Any

from decoder.messages import LogicalMessage


def message_document(message: LogicalMessage) -> dict[str, Any]:
    """A logical message as ``new`` keeps it; its content is text only where it can be."""
    document: dict[str, Any] = {"prefix": message.prefix}
    try:
        content = message.content.decode()
    except UnicodeDecodeError:
        content = "\0"
    if "\0" in content:
        document["content_base64"] = b64encode(message.content).decode("ascii")
    else:
        document["content"] = content
    document["transactional"] = message.transactional
    return document
