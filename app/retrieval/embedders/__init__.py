"""Embedders: the shipped table, and OpenAI-compatible endpoints."""
