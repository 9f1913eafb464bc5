"""The part of envkit that runs inside the interpreter that is judged: standard library and torch.

Nothing of envkit is imported here and nothing here is imported by envkit: the parent knows this
folder as a path and starts `start.py`. Python 3.8; `start.py` itself is read by Python 2.7 too.
"""
