"""This package makes troubles on request; each ends on request, after a while, and with the demo.

``python -m replview.demo.trouble`` follows the requests in the store (``store.demo_troubles``). It
finds what a trouble left on the server by looking there, not from memory. So the next start cleans
up after a killed process.
"""
