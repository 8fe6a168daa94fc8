"""The write path of the store: COPY layout, partitions, leases, incarnations."""
