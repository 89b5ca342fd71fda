"""The code of ``read`` has the web page in it, and that of no other function."""

from pathlib import Path

import pytest

from infra.function_code import FOLDER, PAGE, function_code
from infra.settings import SettingsError


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    }


def test_the_page_lies_beside_the_handler_of_the_function_that_sends_it(tmp_path: Path) -> None:
    code = function_code("read", tmp_path)
    page = {f"{PAGE.name}/{name}": contents for name, contents in files(PAGE).items()}
    assert f"{PAGE.name}/index.html" in page
    assert files(code) == {**files(FOLDER / "read"), **page}
    assert function_code("read", tmp_path) == code
    assert [folder.name for folder in tmp_path.iterdir()] == [code.name]


def test_other_functions_have_their_folder_alone(tmp_path: Path) -> None:
    assert function_code("write", tmp_path) == FOLDER / "write"
    assert not [*tmp_path.iterdir()]


def test_a_page_that_was_not_built_is_no_deployment(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="make web"):
        function_code("read", tmp_path, tmp_path / "graveler_page")
