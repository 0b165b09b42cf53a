"""The engine: how the parts of one process are made, opened, told things and closed."""
