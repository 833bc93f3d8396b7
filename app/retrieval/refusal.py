"""Why a document does not come in."""


class DocumentRefused(Exception):
    """The document does not become part of the knowledge base; `reason` is told to the user."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
