"""Critics and graders: who judges drafts and passages, by which model."""
