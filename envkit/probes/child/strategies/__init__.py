"""What remedies against running out of memory really save: measured one child a strategy."""
