"""Sessions with a source: a walsender's stream, or SQL functions polled."""
