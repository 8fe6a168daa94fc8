"""Reading the record: transactions, changes, rows, schema history, coverage."""
