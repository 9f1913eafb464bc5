"""Readers of one thing each: what is on this machine or in a file becomes a family of facts."""
