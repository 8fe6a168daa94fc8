-- The changes, in partitions of ranges of transactions.
CREATE SEQUENCE transaction_id_block INCREMENT BY 20000;

CREATE TABLE change (
    transaction_id bigint NOT NULL,
    seq integer NOT NULL,
    lsn pg_lsn NOT NULL,
    subxid bigint,
    relation_id bigint,
    version_id bigint,
    op "char" NOT NULL,
    old_kind "char",
    old jsonb,
    new jsonb,
    key_hash bigint,
    old_key_hash bigint,
    PRIMARY KEY (transaction_id, seq)
) PARTITION BY RANGE (transaction_id);

-- Row history: every change of one row, in order.
CREATE INDEX change_row_history ON change (relation_id, key_hash, lsn, seq);
-- And where a change moved the key, the row it came from.
CREATE INDEX change_moved_key ON change (relation_id, old_key_hash) WHERE old_key_hash IS NOT NULL;
