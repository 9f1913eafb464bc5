"""Frozen values that travel between the parts of envkit; nothing here reads, runs or prints."""
