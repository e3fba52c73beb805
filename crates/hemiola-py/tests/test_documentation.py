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
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(page), "exec"), names)  # noqa: S102


def test_there_are_pages():
    assert ROOT / "docs/guides/python.md" in PAGES


def test_the_example_runs():
    import runpy

    runpy.run_path(str(ROOT / "examples/python/recommender.py"), run_name="__main__")
