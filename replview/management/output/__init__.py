"""What the larger commands print, and how they read their options."""
