"""The chaos test: a seeded workload under random faults, and proof that the record is true.

``python -m tests.chaos`` runs it (``make chaos``). Which faults strike, and what every session of
the workload does, follow from the seed; how the servers interleave them does not.
"""
