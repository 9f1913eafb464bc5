"""envkit: prove that a PyTorch experiment will behave the same on two machines."""

__version__ = "0.1.0"
