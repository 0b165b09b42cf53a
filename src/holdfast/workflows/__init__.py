"""Durable workflows: functions whose steps are recorded, and the executors that carry them to their end."""
