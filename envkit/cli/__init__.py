"""The command line: one file a command, which parses, calls one workflow, renders and returns."""
