"""Loaders of the user's choice: read apart, within the same bounds, refused in words."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.ingest.pipeline import ingest
from app.ingest.uploads import Received, uploads_into
from app.retrieval.retriever import HybridRetriever
from app.settings import Settings

OWN = "tests.app.ingest.own_loaders"
LOADERS = {
    ".pages": f"{OWN}.PagesLoader",
    ".bloat": f"{OWN}.BloatingLoader",
    ".fail": f"{OWN}.FailingLoader",
    ".none": f"{OWN}.NoLoader",
    ".gone": "no_such_package.loaders.Loader",
    ".py": "langchain_community.document_loaders.PythonLoader",
}
PAGES = "The harbour\nThe crane lifts nine tonnes.\n---\n潮水在午夜最高。\n"


@pytest.mark.slow
async def test_files_are_read_by_the_loaders_of_the_user(
    retriever: HybridRetriever, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for suffix in LOADERS:
        (folder / f"a{suffix}").write_text(PAGES, "utf-8")
    (folder / "b.PAGES").write_text(PAGES.replace("nine", "ten"), "utf-8")
    (folder / "c.other").write_text(PAGES, "utf-8")
    report = await ingest([folder], retriever.index, retriever.segmenter, loaders=LOADERS)

    assert [Path(name).name for name in report.added] == ["a.pages", "a.py", "b.PAGES"]
    reasons = {Path(each.source).name: each.reason for each in report.refused}
    assert "GB of memory" in reasons["a.bloat"] or "crashed" in reasons["a.bloat"]
    assert reasons["a.fail"] == "cannot be parsed (ZeroDivisionError)"
    assert "not a LangChain document loader" in reasons["a.none"]
    assert "No module named 'no_such_package'" in reasons["a.gone"]
    assert ".pages" in reasons["c.other"], "known kinds are named"
    found = (await retriever.retrieve("How much does the crane of the harbour lift?", 1))[0]
    assert "tonnes" in found.text
    assert found.title.startswith("The harbour")
    again = await ingest([folder], retriever.index, retriever.segmenter, loaders=LOADERS)
    assert len(again.skipped) == 3


@pytest.mark.slow
async def test_an_upload_is_read_by_them_as_well(
    retriever: HybridRetriever, tmp_path: Path
) -> None:
    chosen = f".pages={LOADERS['.pages']}, .PY={LOADERS['.py']}"
    settings = Settings(_env_file=None, data_dir=tmp_path / "data", loaders=chosen)  # type: ignore[arg-type]
    assert settings.loaders_by_suffix == {k: LOADERS[k] for k in (".pages", ".py")}
    uploads = uploads_into(retriever, settings)
    assert uploads is not None
    async with uploads.written("tide.pages", PAGES.encode()) as file:
        assert isinstance(file, Received)
        brought = await uploads.bring_in([file])
    (document,) = brought.documents
    read = await uploads.read(document.id)
    assert read is not None
    assert read.parts[0].page == 1
    assert "午夜" in read.text


@pytest.mark.parametrize("wrong", ["pages=a.B", ".pages=B", ".pages", ".pages=a.b()"])
def test_a_loader_that_is_not_named_well_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError, match=r"is not of the form \.suffix=package"):
        Settings(_env_file=None, loaders=wrong)  # type: ignore[arg-type]
