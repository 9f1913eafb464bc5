"""A solver where no conda is installed: py-rattler behind the commands that conda-lock calls."""
