"""PostgreSQL: its sessions, what travels with a statement, and what it notifies of."""
