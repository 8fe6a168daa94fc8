"""The write path: COPY layout, partitions, lease, incarnations."""
