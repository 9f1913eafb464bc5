"""A solver where no conda is installed: py-rattler behind the command line that conda-lock calls."""
