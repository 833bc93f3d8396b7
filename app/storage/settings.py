"""Settings of what is kept, inherited by the service's own."""

from pydantic import BaseModel, Field


class KeepingSettings(BaseModel):
    keep_runs: int = Field(
        default=10_000,
        ge=1,
        description="Most finished runs kept; beyond it the oldest without feedback go.",
    )
    keep_runs_days: float = Field(
        default=30.0,
        gt=0,
        description="Days a finished run is kept, and an idle thread without runs;"
        " runs with feedback stay.",
    )
