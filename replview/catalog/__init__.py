"""This package reads a source: named SQL over its catalogs, with rows as frozen dataclasses."""
