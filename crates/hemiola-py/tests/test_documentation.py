"""Python code of the book, page by page, runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: Other pages have Python code that reads files of theirs.
PAGES = sorted((ROOT / "docs/guides").glob("python*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_of_the_page_runs(page):
    names: dict[str, object] = {}
    text = page.read_text()
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        # The lines of the page, so that the source of a function can be read.
        first = text[: block.start(1)].count("\n")
        exec(compile("\n" * first + block[1], str(page), "exec"), names)  # noqa: S102


def test_there_are_pages():
    assert {"python", "python-programs"} <= {page.stem for page in PAGES}


def test_the_example_runs():
    import runpy

    runpy.run_path(str(ROOT / "examples/python/recommender.py"), run_name="__main__")


def test_the_notebook_runs(tmp_path):
    import nbclient
    import nbformat

    notebook = nbformat.read(ROOT / "examples/python/recommender.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "notebooks are stored without outputs"
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    kinds = {kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})}
    assert {"text/html", "image/svg+xml"} <= kinds
