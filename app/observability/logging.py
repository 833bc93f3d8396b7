"""How lines of the log look: when, how severe, who, what."""

import logging
from copy import deepcopy
from typing import Any

from uvicorn.config import LOGGING_CONFIG

WITH_TIME = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def timed_log(level: str) -> dict[str, Any]:
    """For uvicorn: its own configuration from `level` on, the time before each line.

    What others log in this process looks alike, unless that is configured already.
    """
    logging.basicConfig(level=level.upper(), format=WITH_TIME)
    chosen = deepcopy(LOGGING_CONFIG)
    for formatter in chosen["formatters"].values():
        formatter["fmt"] = f"%(asctime)s {formatter['fmt']}"
    for logger in chosen["loggers"].values():
        logger["level"] = level.upper()
    return chosen
