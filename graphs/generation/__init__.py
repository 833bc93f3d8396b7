"""Generation: prompts, answers, compression of the knowledge."""
