"""Signed addresses: one image for some hours, for clients that load images without a key.

The stored digest of the API key signs (HMAC-SHA-256), and nobody outside is told that digest. So no
further secret is kept, every process at the database knows the signature, an address shows what its
key may see, and a revoked key takes its addresses along.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from urllib.parse import urlencode

_QUERY = re.compile(r"expires=(\d{1,12})&key=([0-9a-f]{8})&signature=([0-9a-f]{64})")
_IN_TEXT = re.compile(rf"(/images/[\w.-]{{1,100}})\?{_QUERY.pattern}")


@dataclass(frozen=True, slots=True)
class AddressSigner:
    """Signs paths of this service with a key, which is named by its id."""

    key_id: str
    digest: str = field(repr=False)

    def query(self, path: str, expires_at: float) -> str:
        """The parameters that let a client load `path` until then, in Unix seconds."""
        expires = int(expires_at)
        parts = {"expires": expires, "key": self.key_id}
        return urlencode({**parts, "signature": self._signature(path, expires)})

    def has_signed(self, path: str, signed: "SignedQuery") -> bool:
        expected = self._signature(path, signed.expires_at)
        return hmac.compare_digest(expected, signed.signature)

    def _signature(self, path: str, expires: int) -> str:
        message = f"GET {path}\n{expires}"
        return hmac.new(self.digest.encode(), message.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class SignedQuery:
    """What the query of a signed address claims."""

    expires_at: int
    key_id: str
    signature: str

    @classmethod
    def of(cls, query: str) -> "SignedQuery | None":
        """None where it is none, as it was handed out."""
        match = _QUERY.fullmatch(query)
        return cls(int(match[1]), match[2], match[3]) if match else None


def without_signatures(text: str) -> str:
    """The text with the addresses of images unsigned: dialogues go to models and are stored."""
    return _IN_TEXT.sub(r"\1", text)
