"""What a source does at this moment: its slots, what holds its WAL back, what is open."""
