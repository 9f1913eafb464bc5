"""Reports and comparisons as one HTML file that loads nothing and works from disk."""
