"""What a fleet file declares. An absent key is left as it is; a new slot takes its default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSlot:
    """One ``[[source.slot]]`` with the defaults it inherits."""

    name: str
    #: Only what is declared, by the names of ``keys.SLOT``.
    values: Mapping[str, Any]
    line: int

    def get(self, key: str, otherwise: Any = None) -> Any:
        """What is declared, else something else."""
        return self.values.get(key, otherwise)

    def says(self, *keys: str) -> bool:
        """Whether any of these is declared."""
        return any(key in self.values for key in keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSource:
    """One ``[[source]]``. Holds no secret, only where it is."""

    name: str
    #: A libpq connection string without a password, ``service=…`` or ``env:NAME``.
    dsn: str
    #: ``env:NAME`` or ``file:/path``; empty: none is declared.
    password_ref: str = ""
    slots: tuple[DeclaredSlot, ...] = ()
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredMask:
    """One ``[[mask]]``."""

    #: The name of a source; empty: every source.
    source: str = ""
    table: str = "*"
    column: str = "*"
    type: str = ""
    when: str = "ingest"
    note: str = ""
    line: int

    def __str__(self) -> str:
        kind = f" of type {self.type}" if self.type else ""
        return f"{self.table}.{self.column}{kind}, {self.source or 'every source'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredGrant:
    """One ``[[grant]]``."""

    #: ``user`` or ``group``, and which.
    kind: str
    holder: str
    #: The name of a source; empty: every source.
    source: str = ""
    #: Empty: all tables.
    tables: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.holder} on {self.source or 'every source'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The whole file."""

    #: Of the file, without its folder.
    name: str = "fleet.toml"
    sources: tuple[DeclaredSource, ...] = ()
    masks: tuple[DeclaredMask, ...] = ()
    grants: tuple[DeclaredGrant, ...] = ()
    #: The file speaks of mask rules at all: else ``--prune`` leaves them alone.
    has_masks: bool = field(default=False)
