"""Bits of results: operations on inputs that are the same on every machine."""
