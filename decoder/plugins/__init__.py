"""Text output plugins: test_decoding and wal2json."""
