"""Text: sentences, languages, citations, questions, what models write."""
