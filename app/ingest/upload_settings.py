"""Settings of what comes in over HTTP and from the web."""

from pydantic import BaseModel, Field

# No document is larger, whichever way it comes in.
MAX_BYTES = 20_000_000


class IncomingSettings(BaseModel):
    upload_max_bytes: int = Field(
        default=MAX_BYTES,
        ge=1000,
        le=MAX_BYTES,
        description="Largest file of an upload; beyond it 413.",
    )
    upload_max_total_bytes: int = Field(
        default=200_000_000, ge=1000, description="Largest upload of several files; beyond it 413."
    )
