"""Faults of an environment.yml that can be seen before anything is solved."""
