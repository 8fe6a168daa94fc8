"""Lakes keep tables of a slot in Delta or Iceberg; this feature adds, runs and shows them."""
