"""Holdfast inside other frameworks: one module each, which needs that framework installed."""
