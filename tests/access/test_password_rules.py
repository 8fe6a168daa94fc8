"""Passwords that an attacker would try first."""

import hashlib
from pathlib import Path

import pytest
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from replview.access.password_rules import is_in_file

LONG = "correct horse battery"


@pytest.mark.parametrize(
    ("password", "is_good"),
    [
        ("replview-2026!", False),
        ("Acme.Replview.42", False),
        ("wal.example.ACME", False),
        (f"{LONG} replview acme", True),
        (LONG, True),
    ],
)
def test_what_is_mostly_words_of_the_instance_is_refused(settings, password, is_good) -> None:
    settings.ALLOWED_HOSTS, settings.PASSWORD_WORDS = ["wal.example", "*"], ["Acme"]
    if is_good:
        validate_password(password)
        return
    with pytest.raises(ValidationError, match="mostly words of this installation"):
        validate_password(password)


def breached(path: Path, passwords: list[str]) -> str:
    digests = [hashlib.sha1(one.encode()).hexdigest().upper() for one in passwords]
    path.write_text("".join(f"{each}:{n}\n" for n, each in enumerate(sorted(digests))))
    return str(path)


def test_what_is_known_from_a_breach_is_refused(settings, tmp_path: Path) -> None:
    settings.BREACHED_PASSWORDS = breached(tmp_path / "sha1", [LONG, "another", "a third one"])
    validate_password(f"{LONG} staple")
    with pytest.raises(ValidationError, match="known from a breach"):
        validate_password(LONG)
    settings.BREACHED_PASSWORDS = str(tmp_path / "nothing")
    with pytest.raises(ValidationError, match="cannot be read"):
        validate_password(LONG)


@pytest.mark.parametrize("number", [0, 1, 2, 500])
def test_each_line_of_the_file_is_found_and_no_other(tmp_path: Path, number: int) -> None:
    passwords = [f"password {n}" for n in range(number)]
    path = breached(tmp_path / "sha1", passwords)
    assert all(is_in_file(one, path) for one in passwords)
    assert not any(is_in_file(f"other {n}", path) for n in range(200))
