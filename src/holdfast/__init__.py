"""Durable workflows and reliability state in the database you already run."""
