"""The Model Context Protocol: the service as tools and resources of other assistants."""
