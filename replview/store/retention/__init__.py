"""What the store keeps: its size, its limits, deletion, and the archive's progress."""
