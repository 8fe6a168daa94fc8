"""What people do to sources and slots, the same from a page, a program or a command.

Each act is planned first (``acts.Act``: the exact statements with rights and costs, what follows
from it, what must be typed, or why it is refused) and then done, with a line in the slot's log and
in the access record. What is done is planned anew at that moment: a page may be an hour old.
"""
