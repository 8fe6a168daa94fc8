"""Troubles that the demo makes when asked, each ends when asked, by itself, and with the demo.

``python -m replview.demo.trouble`` obeys the requests in the store (``store.demo_troubles``). What
a trouble leaves on the server is found there, not remembered: whoever starts after a killed process
cleans up behind it.
"""
