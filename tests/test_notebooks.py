"""The notebooks run from top to bottom in a kernel of their own, and are those of their scripts."""

from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NAMES = {
    "first_transfer",
    "own_codec",
    "pooled_and_block_sparse",
    "step_time",
    "training_with_offload",
    "what_a_network_saves",
}


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} == NAMES


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_its_script(path):
    script = jupytext.read(path.with_suffix(".py"))
    notebook = nbformat.read(path, as_version=4)
    cells = [[(c.cell_type, c.source) for c in n.cells] for n in (script, notebook)]
    assert cells[0] == cells[1], f"jupytext --to ipynb --execute {path.with_suffix('.py').name}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_with_its_results(path):
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    counts = [cell.execution_count for cell in cells]
    assert counts == list(range(1, len(cells) + 1)), "run from a clean state, top to bottom"
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [o for o in outputs if o.output_type == "error"]
    assert [o for o in outputs if "image/png" in o.get("data", {})], "no plot"
    text = path.read_text("utf-8")
    assert not [word for word in ("/home/", "/root/", "/tmp/") if word in text]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_a_clean_state(path, monkeypatch, tmp_path):
    monkeypatch.setenv("ACTDMA_BOARD", "emulated")
    notebook = jupytext.read(path.with_suffix(".py"))
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
