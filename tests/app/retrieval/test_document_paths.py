"""Paths of documents in an index whose state folder has moved."""

from pathlib import Path

import pytest

from app.retrieval.document_paths import DocumentPaths


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "new" / "uploads" / "shared").mkdir(parents=True)
    (tmp_path / "new" / "uploads" / "shared" / "灯.md").write_text("Lit.", "utf-8")
    return tmp_path / "new"


@pytest.mark.parametrize("inside", ["uploads/shared/灯.md", "uploads/@ann/lamp.md"])
def test_what_lies_in_the_state_folder_is_kept_relative(state: Path, inside: str) -> None:
    paths = DocumentPaths(state)
    assert paths.stored(str(state / inside)) == inside
    assert paths.here(inside, "") == str(state / inside)


@pytest.mark.parametrize("outside", ["/docs/灯.md", "/docs/uploads/other/lamp.md", ""])
def test_all_other_paths_stay(state: Path, outside: str) -> None:
    paths = DocumentPaths(state)
    assert paths.stored(outside) == outside
    assert paths.here(outside, "") == outside
    assert paths.stored(f"{state}-beside/lamp.md") == f"{state}-beside/lamp.md"


def test_an_absolute_path_of_an_upload_elsewhere_is_the_one_here(
    state: Path, tmp_path: Path
) -> None:
    """Whether the folder was moved, or copied and the former one is still there."""
    paths, old = DocumentPaths(state), tmp_path / "old"
    former, place = old / "uploads" / "shared" / "灯.md", state / "uploads" / "shared" / "灯.md"
    assert paths.here(str(former), "") == str(place)
    (old / "index").mkdir(parents=True)
    former.parent.mkdir(parents=True)
    former.touch()
    assert paths.here(str(former), "") == str(place)
    assert paths.here(str(old / "uploads/@ann/x.md"), "ann") == str(state / "uploads/@ann/x.md")


def test_a_file_of_no_state_folder_is_no_upload(state: Path, tmp_path: Path) -> None:
    """Folders of documents may be called like those of uploads."""
    paths, docs = DocumentPaths(state), tmp_path / "docs" / "uploads" / "shared"
    docs.mkdir(parents=True)
    (docs / "灯.md").touch()
    assert paths.here(str(docs / "灯.md"), "") == str(docs / "灯.md")
    assert paths.here(str(docs / "gone.md"), "") == str(docs / "gone.md")
    assert paths.here("/old/uploads/@bob/x.md", "ann") == "/old/uploads/@bob/x.md"
