"""Environment specs: reading them, judging them, and the registry of those that envkit ships."""
