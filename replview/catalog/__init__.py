"""Reading a source: named SQL over its catalogs, its rows as frozen dataclasses."""
