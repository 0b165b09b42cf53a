"""One run in this process, from its start to its outcome, and those who wait for it."""
