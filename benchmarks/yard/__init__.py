"""Yardsticks: what the raw drivers reach on this machine doing the same durable writes, and how to print ratios."""
