"""Redaction: keys and passwords masked in whatever is logged, by this package or by a library.

Records are masked when they are made, whichever logger and handler they are for. Addresses lose
their userinfo and the values of telling parameters; secret settings are known by their values.
"""

import base64
import logging
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, SecretStr

MASK = "***"
MIN_SECRET_CHARS = 6
"""Shorter values stand in too many words, such as the `none` of servers without keys."""

_USERINFO = re.compile(r"([a-z][a-z0-9+.-]{1,30}://)[^\s/?#@\"'<>]+@", re.IGNORECASE)
_TELLING = r"[\w.-]{0,40}?(?:key|token|secret|passw|auth|sig|credential)[\w.-]{0,40}"
_NAME = re.compile(_TELLING, re.IGNORECASE)
_PARAMETER = re.compile(rf"([?&]{_TELLING}=)[^\s&#\"'<>)]+", re.IGNORECASE)


class Redactor:
    """Mask credentials in addresses, and every known secret."""

    def __init__(self) -> None:
        self._known = set[str]()
        self._pattern: re.Pattern[str] | None = None

    def learn(self, settings: BaseModel) -> None:
        """Mask the secrets of these settings in the log of this process from now on."""
        secrets = {secret for value in dict(settings).values() for secret in _secrets_in(value)}
        self._known |= {secret for secret in secrets if len(secret) >= MIN_SECRET_CHARS}
        longest_first = sorted(self._known, key=len, reverse=True)
        if longest_first:
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        if not isinstance(made := logging.getLogRecordFactory(), MaskedRecords):
            logging.setLogRecordFactory(MaskedRecords(made))

    def __call__(self, text: str) -> str:
        if "://" in text:
            text = _USERINFO.sub(rf"\1{MASK}@", text)
        text = _PARAMETER.sub(rf"\1{MASK}", text)
        return self._pattern.sub(MASK, text) if self._pattern else text


class MaskedRecords:
    """A factory of log records around another one."""

    def __init__(self, made: Callable[..., logging.LogRecord]) -> None:
        self._made = made

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._made(*args, **kwargs)
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # logging itself tells of it, where it is written
            return record
        if redact(message) != message:
            if isinstance(record.args, tuple):  # uvicorn's formatter reads them one by one
                record.args = tuple(map(_masked, record.args))
            if redact(record.getMessage()) != record.getMessage():
                record.msg, record.args = redact(message), None
        if record.exc_info and record.exc_info[0]:
            text = "".join(traceback.format_exception(*record.exc_info)).rstrip()
            if redact(text) != text:
                record.exc_info, record.exc_text = None, redact(text)
        return record


redact = Redactor()
"""The one of this process."""


def _masked(value: object) -> object:
    text = str(value)
    return value if redact(text) == text else redact(text)


def _secrets_in(value: object) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
        yield value.get_secret_value().rpartition(":")[2]  # of user:password
        value = value.get_secret_value()
    if isinstance(value, tuple):
        for part in value:
            yield from _secrets_in(part)
    if isinstance(value, str) and "://" in value:
        # What stands before it, as in model@address, is none of it.
        parts = urlsplit(value[value.rfind("@", 0, value.find("://")) + 1 :])
        userinfo = parts.netloc.rpartition("@")[0]
        password = userinfo.partition(":")[2]
        # As it stands in the header, too.
        yield base64.b64encode(unquote(userinfo).encode()).decode()
        yield from (userinfo, password, unquote(password))
        yield from (it for name, it in parse_qsl(parts.query) if _NAME.fullmatch(name))
