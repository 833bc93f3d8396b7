"""The knowledge base: its index, hybrid search and reranking without a model."""
