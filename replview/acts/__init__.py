"""This package changes sources and slots for a page, a program or a command.

Each act is a plan, which is shown first, and then carried out.
"""
