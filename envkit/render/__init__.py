"""Reports as text for people and programs; every function here is pure."""
