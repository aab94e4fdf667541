"""The documentation is built without a warning, and its examples run."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from actdma.version import VERSION

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(page):
    """Fenced Python; what needs a board or a model of the reader's own is fenced as ``py``."""
    return FENCED.findall(page.read_text())


WITH_EXAMPLES = [page for page in PAGES if examples(page)]


def test_the_guides_have_examples():
    names = {page.stem for page in WITH_EXAMPLES}
    assert {"index", "training", "driver", "trust"} <= names


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_examples_run_from_top_to_bottom(page, tmp_path):
    script = tmp_path / "example.py"
    script.write_text("\n\n".join(examples(page)))
    done = run_in(tmp_path, script)
    assert done.returncode == 0, done.stderr


def test_the_readmes_pynq_example_runs(tmp_path):
    text = (ROOT / "README.md").read_text()
    section = text.partition("## Your own pynq code on the emulated board\n")[2]
    script = tmp_path / "example.py"
    script.write_text(textwrap.dedent(re.match(r"\n((?:    .*\n|\n)+)", section)[1]))
    done = run_in(tmp_path, script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_files_named_there_exist(name):
    text = (ROOT / name).read_text()
    links = re.findall(r"\]\((?!http)([^)#]+)", text)
    tables = [line for line in text.splitlines() if line.startswith("|")]
    named = re.findall(
        r"`((?:docs|hls|host|overlay|tests|benchmarks|notebooks)/[\w./]*)`", "".join(tables)
    )
    missing = [path for path in [*links, *named] if not (ROOT / path).exists()]
    assert not missing
    assert links or named


@pytest.mark.parametrize("name", ["CITATION.cff", "CHANGELOG.md"])
def test_the_version_is_that_of_the_package(name):
    number = re.search(r"^(?:version: |## )(\d\S*\d)", (ROOT / name).read_text(), re.MULTILINE)[1]
    assert number == VERSION


def run_in(folder, script):
    env = {
        **os.environ,
        "ACTDMA_BOARD": "emulated",
        "ACTDMA_LOCKS": str(folder),
        "PYTHONPATH": str(ROOT / "host"),
    }
    return subprocess.run(
        [sys.executable, script], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )


def test_the_site_is_built_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    for page in PAGES:
        name = "index.html" if page.stem == "index" else f"{page.stem}/index.html"
        assert (tmp_path / "site" / name).exists()


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r": (\w+)\.md$", navigation, re.MULTILINE)
    assert sorted(listed) == sorted(page.stem for page in PAGES)
