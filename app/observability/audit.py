"""Audit log: who changed the knowledge base or the keys, a line each of the logger `app.audit`."""

import logging
from collections.abc import Iterable

log = logging.getLogger("app.audit")


def audit(what: str, owner: str, ids: Iterable[str], **fields: str) -> None:
    """Ids and names alone, no text and no key; an empty owner is who sits at the machine."""
    if named := sorted(ids):
        entry = {"owner": owner or "local", "ids": named, **fields}
        log.info(what, extra={"fields": entry})
