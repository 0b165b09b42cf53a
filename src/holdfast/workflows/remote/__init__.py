"""The database from outside, for clients that run nothing."""
