"""An endpoint that embeds questions, as a part of the service's services."""

from pathlib import Path

from app.composition.services import open_services
from app.settings import Settings
from tests.loopback.embeddings import EMBEDDINGS_MODEL, EmbeddingsServer
from tests.loopback.openai import OPENAI_KEY


async def test_its_circuit_is_among_those_of_the_service(tmp_path: Path) -> None:
    with EmbeddingsServer() as server:
        settings = Settings(
            _env_file=None,
            data_dir=tmp_path,
            search="off",
            embedder=f"openai:{EMBEDDINGS_MODEL}@{server.base_url}",
            embedder_key=OPENAI_KEY,
        )
        async with open_services(settings) as services:
            assert "embedder" in services.circuits
            assert services.embedder_name == f"openai:{EMBEDDINGS_MODEL}"
