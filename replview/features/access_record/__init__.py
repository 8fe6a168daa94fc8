"""The access record: who read or changed what in replview."""
