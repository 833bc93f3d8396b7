"""Resilience: what a run's deadline leaves its calls, and circuit breakers of dependencies."""
