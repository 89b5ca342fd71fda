"""No modules of the package import each other in a circle, also not by imports within functions, for type checkers or by a
string."""

from tests.count_house import PACKAGE, circles, imports_between, string_imports

BY_STRING = {
    ("graveler.sdk.lake", "graveler.sql.session"),
    ("graveler.sdk.reference", "graveler.sql.rowdiff.comparison"),
}
"""Imports whose module is a string in the code of the importer."""


def test_no_module_is_in_a_circle_of_imports() -> None:
    imports = imports_between(PACKAGE, by_string=False)
    assert len(imports) > 400
    assert list(circles(imports)) == []


def test_no_module_is_imported_by_a_string() -> None:
    assert set(string_imports(PACKAGE)) <= BY_STRING
