"""Evaluation: question sets over the user's own documents, measured, reported and compared."""
