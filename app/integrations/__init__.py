"""The service in other frameworks: clients of its own interface, importable without starting it."""
