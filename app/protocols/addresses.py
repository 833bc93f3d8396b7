"""Addresses that an answer gives to a client: of the page of this service, and of images.

Frontends load images by themselves and send no key, so where keys are asked for the addresses of
images are signed with the caller's, for some hours.
"""

from dataclasses import dataclass

from app.storage.database import now
from app.storage.signed_addresses import AddressSigner
from graphs.types import Image


@dataclass(frozen=True, slots=True)
class Addresses:
    """`page` is that of the service, with a slash at its end; signed addresses last `life_s`."""

    page: str
    signer: AddressSigner | None = None
    life_s: float = 0.0

    def image(self, image: Image) -> str:
        """Where a client loads a stored image; one that was generated is its own data URL."""
        if image.origin != "stored":
            return image.url
        address = self.page.removesuffix("/") + image.url
        if self.signer is None or not self.life_s:
            return address
        return f"{address}?{self.signer.query(image.url, now() + self.life_s)}"
