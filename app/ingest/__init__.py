"""Documents into the knowledge base: read, cut into chunks, embedded and stored."""
