"""Audit log: a line for each change of the knowledge base and of the keys."""

import logging
from pathlib import Path

import pytest

from app.ingest.pipeline import ingest
from app.ingest.uploads import Received, Uploads
from app.observability.logging import fields_of
from app.retrieval.retriever import HybridRetriever
from app.settings import Settings
from app.storage.api_keys import add_key, revoke_key
from app.storage.database import open_engine
from graphs.options import Scope


@pytest.fixture
def audited(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "app.audit")
    return caplog


def lines(audited: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    records = [record for record in audited.records if record.name == "app.audit"]
    return [{"what": record.getMessage(), **fields_of(record)} for record in records]


async def test_documents_that_come_and_go_are_told(
    audited: pytest.LogCaptureFixture, retriever: HybridRetriever, tmp_path: Path
) -> None:
    uploads = Uploads(tmp_path / "data", retriever.index, retriever.segmenter, max_bytes=10_000)
    page, lamp = tmp_path / "page.md", tmp_path / "lamp.md"
    page.write_text("# Page\n\nWords of a page.\n", "utf-8")
    lamp.write_text("# Lamp\n\nThe lamp is lit.\n", "utf-8")

    await ingest([page], retriever.index, retriever.segmenter)
    (shared,) = await retriever.index.documents(Scope())
    await ingest([page], retriever.index, retriever.segmenter)
    page.unlink()
    await ingest([tmp_path / "page.md"], retriever.index, retriever.segmenter, prune=True)
    (own,) = (await uploads.bring_in([Received("lamp.md", lamp)], "ann")).documents
    await uploads.delete(own.id, "ann")
    await uploads.delete(own.id, "ann")

    local = {"owner": "local", "ids": [shared.id], "collection": "default"}
    assert lines(audited) == [
        {"what": "documents brought in", **local},
        {"what": "documents deleted", **local},
        {
            "what": "documents brought in",
            "owner": "ann",
            "ids": [own.id],
            "collection": "default",
        },
        {"what": "documents deleted", "owner": "ann", "ids": [own.id]},
    ]


async def test_keys_that_are_made_and_revoked_are_told_without_their_secret(
    audited: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async with open_engine(Settings(_env_file=None, data_dir=tmp_path)) as engine:
        key, secret = await add_key(engine, "ann")
        assert await revoke_key(engine, key.id)
        assert not await revoke_key(engine, "unknown")

    assert lines(audited) == [
        {"what": "key added", "owner": "ann", "ids": [key.id]},
        {"what": "key revoked", "owner": "ann", "ids": [key.id]},
    ]
    assert secret not in audited.text
