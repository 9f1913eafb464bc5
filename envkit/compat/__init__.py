"""What runs with what: dated tables with their sources, and the questions asked of them.

`tables.py` is the door; other packages import from there.
"""
