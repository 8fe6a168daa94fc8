"""Parts of models: plain table names, fields for PostgreSQL types, indexes of a part of a table."""

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models.base import ModelBase
from django.utils.text import camel_case_to_spaces

from decoder.scalars import LSN, lsn_from_text

if TYPE_CHECKING:
    _Field = models.Field[Any, Any]
else:
    _Field = models.Field


class _Named(ModelBase):
    def __new__(cls, name: str, bases: Any, attrs: dict[str, Any], **kwargs: Any) -> Any:
        meta = attrs.setdefault("Meta", type("Meta", (), {}))
        if not (hasattr(meta, "db_table") or hasattr(meta, "abstract")):
            meta.db_table = camel_case_to_spaces(name).replace(" ", "_")
        return super().__new__(cls, name, bases, attrs, **kwargs)


class Table(models.Model, metaclass=_Named):
    """A model whose table has its plain name: ``SlotSample`` is stored in ``slot_sample``."""

    class Meta:
        abstract = True


class LSNField(_Field):
    """A position in the WAL: a ``pg_lsn`` column, an ``LSN`` in Python, ``0/1B2C3D8`` in SQL."""

    def db_type(self, connection: object) -> str:
        """Return the column's type, ``pg_lsn``."""
        return "pg_lsn"

    def from_db_value(
        self, value: str | None, expression: object, connection: object
    ) -> LSN | None:
        """Return the column's text as an ``LSN``; None for NULL."""
        return lsn_from_text(value)

    def to_python(self, value: Any) -> LSN | None:
        """Return a text or a number as an ``LSN``."""
        if value is None or isinstance(value, LSN):
            return value
        return LSN.parse(value) if isinstance(value, str) else LSN(value)

    def get_prep_value(self, value: Any) -> str | None:
        """Return a position as PostgreSQL's text."""
        lsn = self.to_python(value)
        return None if lsn is None else str(lsn)


class CharCodeField(_Field):
    """One letter in PostgreSQL's one-byte type ``"char"``."""

    def db_type(self, connection: object) -> str:
        """Return the column's type, ``"char"``."""
        return '"char"'


def index_where(name: str, *fields: str, **condition: object) -> models.Index:
    """Return a partial index of the rows that ``filter(**condition)`` finds."""
    return models.Index(fields=list(fields), name=name, condition=models.Q(**condition))
