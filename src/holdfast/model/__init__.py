"""Frozen records, enums and small protocols that cross rooms. Imports nothing of ours."""
