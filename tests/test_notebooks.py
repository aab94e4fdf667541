"""The notebooks run from top to bottom, here without Jupyter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert [path.name for path in NOTEBOOKS] == ["first_transfer.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, monkeypatch, capsys):
    monkeypatch.setenv("ACTDMA_BOARD", "emulated")
    notebook = json.loads(path.read_text("utf-8"))
    space = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "notebooks are kept without output"
            exec(compile("".join(cell["source"]), f"{path.name} {cell['id']}", "exec"), space)
    assert "every bit is the same" in capsys.readouterr().out
