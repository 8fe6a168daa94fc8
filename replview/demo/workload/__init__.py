"""This package is the demo's workload: a shop whose transactions show every state in replview.

``python -m replview.demo.workload --prepare`` creates the shop; without ``--prepare`` it runs.
"""
