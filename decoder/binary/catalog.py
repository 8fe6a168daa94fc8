"""This module lists the built-in types: their oids and decoders. Source: pg_type.dat."""

from collections.abc import Callable
from typing import Final

from decoder.binary import datetimes, geometry, networks, scalars

#: Types whose binary value is their text.
TEXT_LIKE: Final = {
    "name": 19,
    "text": 25,
    "json": 114,
    "unknown": 705,
    "bpchar": 1042,
    "varchar": 1043,
    "refcursor": 1790,
}
#: Types whose binary value is a version byte, 1, and their text.
VERSIONED_TEXT: Final = {"jsonb": 3802, "jsonpath": 4072}

SCALARS: Final[dict[str, tuple[int, Callable[[bytes], str]]]] = {
    "bool": (16, scalars.bool_text),
    "bytea": (17, scalars.bytea_text),
    "char": (18, scalars.char_text),
    "int8": (20, scalars.integer_text(8, signed=True)),
    "int2": (21, scalars.integer_text(2, signed=True)),
    "int4": (23, scalars.integer_text(4, signed=True)),
    "oid": (26, scalars.integer_text(4, signed=False)),
    "tid": (27, scalars.tid_text),
    "xid": (28, scalars.integer_text(4, signed=False)),
    "cid": (29, scalars.integer_text(4, signed=False)),
    "point": (600, geometry.point_text),
    "lseg": (601, geometry.lseg_text),
    "path": (602, geometry.path_text),
    "box": (603, geometry.box_text),
    "polygon": (604, geometry.polygon_text),
    "line": (628, geometry.line_text),
    "cidr": (650, networks.inet_text),
    "float4": (700, scalars.float4_text),
    "float8": (701, scalars.float8_text),
    "circle": (718, geometry.circle_text),
    "macaddr8": (774, networks.macaddr8_text),
    "macaddr": (829, networks.macaddr_text),
    "inet": (869, networks.inet_text),
    "date": (1082, datetimes.date_text),
    "time": (1083, datetimes.time_text),
    "timestamp": (1114, datetimes.timestamp_text),
    "timestamptz": (1184, datetimes.timestamptz_text),
    "interval": (1186, datetimes.interval_text),
    "timetz": (1266, datetimes.timetz_text),
    "bit": (1560, scalars.bit_text),
    "varbit": (1562, scalars.bit_text),
    "numeric": (1700, scalars.numeric_text),
    "uuid": (2950, scalars.uuid_text),
    "txid_snapshot": (2970, scalars.snapshot_text),
    "pg_lsn": (3220, scalars.pg_lsn_text),
    "pg_snapshot": (5038, scalars.snapshot_text),
    "xid8": (5069, scalars.integer_text(8, signed=False)),
}

VECTORS: Final = {"int2vector": 22, "oidvector": 30}
TEXT_SEARCH: Final = {"tsvector": 3614, "tsquery": 3615}

#: Range type → its oid and its subtype's name.
RANGES: Final = {
    "int4range": (3904, "int4"),
    "numrange": (3906, "numeric"),
    "tsrange": (3908, "timestamp"),
    "tstzrange": (3910, "timestamptz"),
    "daterange": (3912, "date"),
    "int8range": (3926, "int8"),
}
#: Multirange type → its oid and its subtype's name.
MULTIRANGES: Final = {
    "int4multirange": (4451, "int4"),
    "nummultirange": (4532, "numeric"),
    "tsmultirange": (4533, "timestamp"),
    "tstzmultirange": (4534, "timestamptz"),
    "datemultirange": (4535, "date"),
    "int8multirange": (4536, "int8"),
}

#: Arrays of all built-in types. An array value itself names the type of its elements.
# fmt: off
ARRAY_OIDS: Final = frozenset({
    143, 199, 271, 629, 651, 719, 775, 1000, 1001, 1002, 1003, 1005, 1006, 1007,
    1009, 1010, 1011, 1012, 1013, 1014, 1015, 1016, 1017, 1018, 1019, 1020, 1021, 1022,
    1027, 1028, 1040, 1041, 1115, 1182, 1183, 1185, 1187, 1231, 1270, 1561, 1563, 2201,
    2949, 2951, 3221, 3643, 3645, 3807, 3905, 3907, 3909, 3911, 3913, 3927, 4073, 5039,
    6150, 6151, 6152, 6153, 6155, 6157,
})
# fmt: on
RECORD_OID: Final = 2249
XML_OID: Final = 142

#: Built-in types whose binary value is *not* decoded, and why. Their columns,
#: and arrays, records and ranges that hold one, come out as ``Undecoded``.
NOT_DECODED: Final = {
    "money": "its text depends on the server's lc_monetary",
    **dict.fromkeys(
        ("regproc", "regprocedure", "regoper", "regoperator", "regclass", "regtype", "regrole",
         "regnamespace", "regconfig", "regdictionary", "regcollation", "regdatabase"),
        "its text is a name in the server's catalog",
    ),
    "xml": "only where it begins with a declaration, which may name another encoding",
    "char": "only above ASCII, where PostgreSQL 16 changed its text",
    "user-defined": "unless described by a UserType",
}  # fmt: skip
