"""The access record's months, made aside and attached.

``CREATE TABLE … PARTITION OF`` wants the whole table for itself: the first page of a month would
have waited for a back-up that reads it, and every other page behind that one.
"""

from importlib import import_module

from django.db import migrations

BESIDE = """
CREATE OR REPLACE FUNCTION access_record_make_month(moment timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    first date := date_trunc('month', moment AT TIME ZONE 'UTC')::date;
    name text := 'access_record_' || to_char(first, 'YYYYMM');
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('access_record', 0));
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format(
        'CREATE TABLE %I (LIKE access_record INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
    EXECUTE format(
        'CREATE TRIGGER access_record_no_truncate BEFORE TRUNCATE ON %I '
        'FOR EACH STATEMENT EXECUTE FUNCTION access_record_refuse()', name);
    EXECUTE format(
        'ALTER TABLE access_record ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
        first::timestamp AT TIME ZONE 'UTC',
        (first + interval '1 month')::timestamp AT TIME ZONE 'UTC');
END $$;
"""

_before = import_module("replview.store.migrations.0012_access_record").MONTHS


class Migration(migrations.Migration):
    dependencies = [("store", "0018_slot_intentions")]

    operations = [
        migrations.RunSQL(
            BESIDE, _before.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
        )
    ]
