"""Web search: engines, what may be fetched, and pages turned into paragraphs."""
