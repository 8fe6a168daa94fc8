"""Relations: the tables of a slot, and the schema history of one."""
