"""What a row was, when, and under which key."""
