"""What the decorators make of functions, and where they are registered."""
