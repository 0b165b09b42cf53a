"""The database for code without an event loop: threads that wait for their answers."""
