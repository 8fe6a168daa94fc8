"""A workload that says something of everything plugins tell: for several slots on one WAL."""
# ruff: noqa: E501 -- a query string must be one line, for a line is one transaction.

from __future__ import annotations

#: Values of every family of types: column, type, and expressions for three rows.
TYPES = [
    ("i2", "smallint", "-32768", "0", "NULL"),
    ("i8", "bigint", "9223372036854775807", "-1", "NULL"),
    ("o", "oid", "4294967295", "0", "NULL"),
    ("f4", "real", "0.1", "'Infinity'", "'NaN'"),
    ("f8", "double precision", "1e-300", "'-Infinity'", "0.333333333333333314829616256247"),
    ("n", "numeric", "123456789012345678901234567890.1234567890", "'NaN'", "1e50"),
    ("n2", "numeric(12,2)[]", "'{1.50,NULL}'", "'{}'", "NULL"),
    ("mo", "money", "'12.34'", "'-1'", "NULL"),
    ("b", "boolean", "true", "false", "NULL"),
    ("c", "character(5)", "'ab'", "''", "NULL"),
    ("v", "character varying(40)", "'it''s \"é\" \\ '", "E'a\\nb\\tc\\x01'", "''"),
    ("t", "text", "' new-tuple: a[text]:'''", "'null'", "'{\"a\": [1]}'"),
    ("na", "name", "'name'", "''", "NULL"),
    ("ch", '"char"', "'x'", "''", "NULL"),
    ("by", "bytea", "'\\x00ff27'", "'\\x'", "NULL"),
    ("bi", "bit(3)", "B'101'", "B'000'", "NULL"),
    ("vb", "bit varying", "B'1'", "B''", "NULL"),
    ("d", "date", "'2024-02-29'", "'infinity'", "'0044-03-15 BC'"),
    ("ti", "time(3)", "'23:59:59.123'", "'00:00'", "NULL"),
    ("tz", "time with time zone", "'12:00+05:30'", "NULL", "NULL"),
    ("ts", "timestamp(3)", "'2024-02-29 12:34:56.789'", "'-infinity'", "NULL"),
    ("tt", "timestamp with time zone", "'294276-12-31 23:59:59Z'", "'4713-01-01 BC'", "NULL"),
    ("iv", "interval day to second(2)", "'1 day 2:03:04.05'", "'-1 day'", "NULL"),
    ("u", "uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "NULL", "NULL"),
    ("j", "json", '\'{"k": "é\\n"}\'', "'null'", "'1e2'"),
    ("jb", "jsonb", "'{\"k\": 1.50}'", "'\"s\"'", "NULL"),
    ("x", "inet", "'10.0.0.1/8'", "'::1'", "NULL"),
    ("p", "point", "'(1.5,-2)'", "NULL", "NULL"),
    ("tsv", "tsvector", "'a:1 ''b c'':2'", "''", "NULL"),
    ("r", "int4range", "'[1,5)'", "'empty'", "NULL"),
    ("mr", "int4multirange", "'{[1,2),[4,)}'", "'{}'", "NULL"),
    ("l", "pg_lsn", "'16/B374D848'", "'0/0'", "NULL"),
    ("e", '"Odd schema"."Mo""od"', "'it''s'", "'b'", "NULL"),
    ("ea", '"Odd schema"."Mo""od"[]', "'{it''s,b}'", "'{NULL}'", "NULL"),
    ("e2", '"back\\slash"', "'b'", "NULL", "NULL"),
    ("e3", '"Mood"', "'b'", "NULL", "NULL"),
    ("di", "posint", "7", "1", "NULL"),
    ("db", "flag", "true", "false", "NULL"),
    ("dy", "bytes", "'\\x0a'", "NULL", "NULL"),
    ("co", "pair", '\'(1,"a ""b"", c")\'', "'(,)'", "NULL"),
    ("ca", "pair[]", "'{\"(1,a)\"}'", "NULL", "NULL"),
    ("rg", "regclass", "'pg_class'", "NULL", "NULL"),
]

SETUP = f"""
CREATE SCHEMA "Odd schema"; CREATE SCHEMA elsewhere;
CREATE TYPE "Odd schema"."Mo""od" AS ENUM ('it''s', 'b');
CREATE TYPE "back\\slash" AS ENUM ('b'); CREATE TYPE "Mood" AS ENUM ('b');
CREATE DOMAIN posint AS integer CHECK (value > 0); CREATE DOMAIN flag AS boolean;
CREATE DOMAIN bytes AS bytea; CREATE TYPE pair AS (a integer, b text);
CREATE TABLE types (id serial PRIMARY KEY, {", ".join(f"{n} {t}" for n, t, *_ in TYPES)});
CREATE TABLE t (id integer PRIMARY KEY, a text, n numeric);
CREATE TABLE two (a integer, v text, b integer, PRIMARY KEY (b, a));
CREATE TABLE one (id integer PRIMARY KEY);
CREATE TABLE whole (id integer PRIMARY KEY, a text, b integer);
ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE by_index (id integer, code text NOT NULL, v text);
CREATE UNIQUE INDEX by_code ON by_index (code);
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_code;
CREATE TABLE toast (id integer PRIMARY KEY, big text, small text);
CREATE TABLE toast_full (id integer PRIMARY KEY, big text, small text);
CREATE TABLE toast_key (big text PRIMARY KEY, v text);
CREATE TABLE toast_first (id integer PRIMARY KEY, big text, small text, n integer);
ALTER TABLE toast ALTER big SET STORAGE EXTERNAL;
ALTER TABLE toast_full ALTER big SET STORAGE EXTERNAL, REPLICA IDENTITY FULL;
ALTER TABLE toast_key ALTER big SET STORAGE EXTERNAL;
ALTER TABLE toast_first ALTER big SET STORAGE EXTERNAL;
INSERT INTO toast_first VALUES (1, repeat('x', 2500), 's', 1);
CREATE TABLE "Odd schema"."Odd ""Table: x" ("a ""b]:" integer PRIMARY KEY, "old-key:" text);
CREATE TABLE gen (id integer PRIMARY KEY, a integer, g integer GENERATED ALWAYS AS (a * 2) STORED);
CREATE TABLE parted (id integer PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (100) TO (200);
CREATE TABLE changing (id integer PRIMARY KEY, a text, b integer);
CREATE TABLE elsewhere.unseen (id integer); CREATE TABLE empty ();
CREATE PUBLICATION p FOR TABLES IN SCHEMA public, "Odd schema";
"""

#: One line is one query string: several statements in it are one transaction.
WORKLOAD = rf"""
{"; ".join("INSERT INTO types VALUES (DEFAULT, " + ", ".join(row[i] for row in TYPES) + ")" for i in (2, 3, 4))}
UPDATE types SET v = 'changed' WHERE id = 1
DELETE FROM types WHERE id = 2
UPDATE toast_first SET small = 'first seen here' WHERE id = 1
INSERT INTO t VALUES (1, 'one', 1.10), (2, NULL, NULL); UPDATE t SET a = 'uno' WHERE id = 1
UPDATE t SET id = 11 WHERE id = 1; DELETE FROM t WHERE id = 11
INSERT INTO two VALUES (1, 'x', 2), (3, 'y', 4); UPDATE two SET v = 'z' WHERE a = 1; UPDATE two SET b = 9 WHERE a = 3; DELETE FROM two
INSERT INTO one VALUES (1); UPDATE one SET id = 2; DELETE FROM one
INSERT INTO whole VALUES (1, 'x', 1), (2, NULL, NULL), (3, 'z', NULL)
UPDATE whole SET a = 'y' WHERE id = 1; UPDATE whole SET b = 5 WHERE id = 2
UPDATE whole SET a = 'y' WHERE id = 1; UPDATE whole SET a = 'z' WHERE id = 3
DELETE FROM whole WHERE id IN (1, 3)
INSERT INTO by_index VALUES (NULL, 'c1', 'x'), (2, 'c2', NULL); UPDATE by_index SET v = 'y'; UPDATE by_index SET code = 'c3' WHERE code = 'c2'; DELETE FROM by_index
INSERT INTO toast VALUES (1, repeat('é', 2000), 's'); UPDATE toast SET small = 'changed'; UPDATE toast SET id = 2; UPDATE toast SET big = NULL
INSERT INTO toast_full VALUES (1, repeat('y', 2500), 's'); UPDATE toast_full SET small = 'changed'; DELETE FROM toast_full
INSERT INTO toast_key VALUES (repeat('k', 2200), 'v'); UPDATE toast_key SET v = 'w'; UPDATE toast_key SET big = 'short'; DELETE FROM toast_key
INSERT INTO "Odd schema"."Odd ""Table: x" VALUES (1, ': INSERT: '); UPDATE "Odd schema"."Odd ""Table: x" SET "a ""b]:" = 2; DELETE FROM "Odd schema"."Odd ""Table: x"
INSERT INTO gen VALUES (1, 2); UPDATE gen SET a = 3; DELETE FROM gen
INSERT INTO parted VALUES (1, 'low'), (101, 'high'); UPDATE parted SET id = 102 WHERE id = 1
INSERT INTO empty DEFAULT VALUES
INSERT INTO elsewhere.unseen VALUES (1); UPDATE elsewhere.unseen SET id = 2
INSERT INTO elsewhere.unseen VALUES (3); INSERT INTO t VALUES (3, 'three', 3)
BEGIN; INSERT INTO t VALUES (4, 'a', 1); SAVEPOINT s; INSERT INTO t VALUES (5, 'b', 1); ROLLBACK TO s; SAVEPOINT s2; INSERT INTO t VALUES (6, 'c', 1); RELEASE s2; COMMIT
BEGIN; INSERT INTO t VALUES (7, 'never', 1); ROLLBACK
INSERT INTO t SELECT n, repeat('spilled ', 40), n FROM generate_series(1000, 1299) n
SELECT pg_logical_emit_message(true, 'prefix', E'hello\nworld é')
SELECT pg_logical_emit_message(false, 'at, sz: 3 content:once', 'now')
SELECT pg_logical_emit_message(true, 'bytes', '\x61006263'::bytea)
BEGIN; SELECT pg_logical_emit_message(true, '', ''); SELECT pg_logical_emit_message(false, 'inside', 'x'); INSERT INTO t VALUES (8, 'with message', 0); COMMIT
BEGIN; SELECT pg_logical_emit_message(false, 'rolled', 'back'); ROLLBACK
CREATE TABLE made_between (id integer PRIMARY KEY)
INSERT INTO changing VALUES (1, 'x', 1); ALTER TABLE changing ADD c bigint DEFAULT 7; INSERT INTO changing VALUES (2, 'y', 2, 3); UPDATE changing SET b = 3
ALTER TABLE changing ALTER b TYPE numeric(8,3), DROP c; UPDATE changing SET b = 4; DELETE FROM changing WHERE id = 1
ALTER TABLE changing RENAME id TO ident; DELETE FROM changing
INSERT INTO changing VALUES (3, 'z', 1); ALTER TABLE changing DROP a; UPDATE changing SET b = 2
INSERT INTO changing VALUES (4, 2); UPDATE changing SET b = 3
TRUNCATE t, one; TRUNCATE types RESTART IDENTITY; TRUNCATE parted CASCADE; INSERT INTO one VALUES (1)
BEGIN; INSERT INTO t VALUES (20, 'prepared', 1); PREPARE TRANSACTION 'g''1\'
INSERT INTO t VALUES (21, 'meanwhile', 1)
COMMIT PREPARED 'g''1\'
BEGIN; INSERT INTO t VALUES (22, 'rolled back', 1); PREPARE TRANSACTION 'g2'
ROLLBACK PREPARED 'g2'
SELECT pg_replication_origin_create('elsewhere'); SELECT pg_replication_origin_session_setup('elsewhere')
BEGIN; SELECT pg_replication_origin_xact_setup('0/AABB', '2020-01-01 00:00:00.5+00'); INSERT INTO t VALUES (30, 'from elsewhere', 1); COMMIT
SELECT pg_replication_origin_session_reset()
SELECT pg_replication_origin_drop('elsewhere')
"""
