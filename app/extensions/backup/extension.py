"""Backups of the state folder as an extension: commands alone."""

from app.extension import ServiceExtension

extension = ServiceExtension()
