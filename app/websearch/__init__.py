"""Web search: engines, a guarded page reader, and HTML to text."""
