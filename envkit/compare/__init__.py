"""What differs between machines and environments, and which difference is the cause; pure."""
