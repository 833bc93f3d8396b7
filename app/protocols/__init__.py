"""What chat frontends already speak, told from a run's events."""
