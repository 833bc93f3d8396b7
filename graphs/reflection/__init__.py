"""Reflection: tokens, scores, selection of drafts, the beam of long answers."""
