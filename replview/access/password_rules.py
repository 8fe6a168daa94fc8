"""This module refuses passwords made of words of this instance, or known from breaches."""

import hashlib
import os
import re
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError

#: Least number of characters that a password has besides the words of this instance.
_LEFT_CHARACTERS = 8
#: Words shorter than this are ignored, because many passwords contain them by chance.
_WORD_CHARACTERS = 4
#: Characters of a SHA-1 in hexadecimal digits.
_DIGEST_CHARACTERS = 40


class OwnWords:
    """A validator that refuses a password that is little more than words of this instance.

    The words are ``replview``, the parts of ``REPLVIEW_ALLOWED_HOSTS``, and
    ``REPLVIEW_PASSWORD_WORDS``.
    """

    def validate(self, password: str, user: Any = None) -> None:
        """Raise ``ValidationError`` if too few characters are left without these words."""
        remaining = password.casefold()
        for word in sorted(own_words(), key=len, reverse=True):
            remaining = remaining.replace(word, "")
        if len(remaining) < min(_LEFT_CHARACTERS, len(password)):
            raise ValidationError("This password is mostly words of this installation.")

    def get_help_text(self) -> str:
        """Return the sentence beside the field."""
        return "Your password can’t be mostly words of this installation."


def own_words() -> set[str]:
    """Return the words of the product, of its host names and of the organisation."""
    hosts = [part for host in settings.ALLOWED_HOSTS for part in re.split(r"[^\w]+", host)]
    words = {word.casefold() for word in ("replview", *hosts, *settings.PASSWORD_WORDS)}
    return {word for word in words if len(word) >= _WORD_CHARACTERS}


class Breached:
    """A validator that refuses passwords in the file of ``REPLVIEW_BREACHED_PASSWORDS``.

    Its lines are sorted and begin with the SHA-1 of a password in hexadecimal digits, as lists of
    breached passwords come.
    """

    def validate(self, password: str, user: Any = None) -> None:
        """Raise ``ValidationError`` if the file contains the password or cannot be read."""
        if not settings.BREACHED_PASSWORDS:
            return
        try:
            is_breached = is_in_file(password, settings.BREACHED_PASSWORDS)
        except OSError:
            raise ValidationError("The list of breached passwords cannot be read.") from None
        if is_breached:
            raise ValidationError("This password is known from a breach elsewhere.")

    def get_help_text(self) -> str:
        """Return the sentence beside the field."""
        return "Your password can’t be one that is known from a breach."


def is_in_file(password: str, path: str) -> bool:
    """Return whether a sorted file has a line of the password's SHA-1. Raises ``OSError``."""
    digest = hashlib.sha1(password.encode(), usedforsecurity=False).hexdigest().upper().encode()
    with open(path, "rb") as file:
        # The smallest offset after which no line sorts before the digest.
        low, high = 0, os.fstat(file.fileno()).st_size

        def line_at(offset: int) -> bytes:
            """Return the digest of the first line that begins at the offset or after it."""
            file.seek(max(0, offset - 1))
            if offset:
                file.readline()
            return file.readline()[:_DIGEST_CHARACTERS].upper()

        while low < high:
            middle = (low + high) // 2
            line = line_at(middle)
            if line and line < digest:
                low = middle + 1
            else:
                high = middle
        return line_at(low) == digest
