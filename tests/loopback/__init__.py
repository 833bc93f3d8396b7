"""Servers on loopback that speak the protocols of the services the application calls."""
