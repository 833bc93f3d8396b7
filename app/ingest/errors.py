"""Why a document does not come in."""


class DocumentRefused(Exception):
    """The document does not become part of the knowledge base; `reason` is told to the user.

    `may_pass`: not by what the document is, but because it could not be had, such as in an outage.
    """

    def __init__(self, reason: str, *, may_pass: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.may_pass = reason, may_pass
