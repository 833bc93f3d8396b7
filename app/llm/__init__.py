"""Language models behind OpenAI-compatible endpoints."""
