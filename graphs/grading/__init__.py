"""Grading: relevance, CRAG's actions, knowledge strips."""
