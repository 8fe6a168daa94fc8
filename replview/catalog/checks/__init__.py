"""Doctor's checks, a file for each thing they look at."""
