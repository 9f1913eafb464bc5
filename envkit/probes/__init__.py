"""Running code inside the environment that is judged, from a safe distance."""
