"""The demo's workload: a small shop whose transactions show every state replview can show.

``python -m replview.demo.workload --prepare`` makes the shop, and
``python -m replview.demo.workload --rate 20`` opens it for business.
"""
