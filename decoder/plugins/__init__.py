"""This package decodes the text output plugins test_decoding and wal2json."""
