"""Checkpoints: named binary snapshots, in a database or in files."""
