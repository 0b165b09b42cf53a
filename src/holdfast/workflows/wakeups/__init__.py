"""Hints from process to process that there is something new in the database."""
