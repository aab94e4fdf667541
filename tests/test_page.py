"""`actdma report`: what is in a folder of results, on one page."""

import json
import re
import shutil
import subprocess

import pytest
import torch
from torch import nn

from actdma import cli
from sessions import offload

pytest.importorskip("plotly")

STUDY = {
    "title": "Ratios <b>of</b> networks",
    "caption": "a processor, today: measured, all of it",
    "columns": ["network", "zvc"],
    "rows": [["ReLU <script>alert(1)</script>", "1.88"]],
    "figures": [],
}
SIMULATION = {
    "rows are": "modelled",
    "rows": [
        {
            "name": name,
            "step_s": seconds,
            "stall_s": 0.1,
            "held_bytes": 1e9,
            "moved_bytes": 2e9,
            "of_oracle_speed": 0.5,
            "gain_over_vdnn": 0.25,
        }
        for name, seconds in (("oracle", 1.0), ("vDNN", 2.0))
    ],
    "inputs": [["measured", "ratios: of something"]],
    "options": {"network": "vgg16", "device": "titan-x", "link": "pcie3", "batch": 8},
}


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten())
    with offload(model, codec="zvc") as session:
        loss = model(torch.randn(2, 3, 16, 16)).sum()
    loss.backward()
    session.report().to_json(folder / "step.json")
    (folder / "deeper").mkdir()
    (folder / "deeper" / "study.json").write_text(json.dumps(STUDY))
    (folder / "simulation.json").write_text(json.dumps(SIMULATION))
    return folder


def report(folder, out, capsys):
    code = cli.main(["report", str(folder), "--out", str(out)])
    return code, capsys.readouterr().err


def body(out):
    """The page without plotly's own code."""
    head, _, rest = out.read_text("utf-8").partition("<body>")
    assert "modelled" in head
    return rest


def test_the_page_has_steps_models_and_studies(results, tmp_path, capsys):
    out = tmp_path / "report.html"
    assert report(results, out, capsys) == (0, "")
    page = body(out)
    for what in ("A step of", "Step-time model: vgg16", "1.88", "oracle", "from deeper/study.json"):
        assert what in page
    assert page.count("Plotly.newPlot") == 2
    assert "Not here" not in page


def test_measured_and_modelled_are_told_apart_in_words(results, tmp_path, capsys):
    out = tmp_path / "report.html"
    report(results, out, capsys)
    headings = dict(re.findall(r"<h2[^>]*>([^<]*)<span[^>]*>([^<]*)</span></h2>", body(out)))
    kinds = {title.split(":")[0].split(" of ")[0]: kind for title, kind in headings.items()}
    assert kinds["A step"] == "measured"
    assert kinds["Step-time model"] == "modelled"


def test_what_comes_from_files_is_escaped(results, tmp_path, capsys):
    out = tmp_path / "report.html"
    report(results, out, capsys)
    page = body(out)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "Ratios &lt;b&gt;of&lt;/b&gt; networks" in page


def test_nothing_is_fetched(results, tmp_path, capsys):
    out = tmp_path / "report.html"
    report(results, out, capsys)
    assert 'src="http' not in out.read_text("utf-8")


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"rows are": "modelled"}', '{"title": 1, "caption": 2}', "\xff"]
)
def test_what_cannot_be_shown_is_said(results, tmp_path, capsys, text):
    (results / "bad.json").write_text(text, "latin-1")
    out = tmp_path / "report.html"
    code, said = report(results, out, capsys)
    assert code == 0
    assert "bad.json is not shown" in said
    assert "bad.json is not shown" in body(out)


def test_missing_kinds_come_with_their_command(results, tmp_path, capsys):
    (results / "simulation.json").unlink()
    out = tmp_path / "report.html"
    report(results, out, capsys)
    assert "there is no step-time model: actdma simulate --network NAME --json FILE" in body(out)


def test_a_folder_without_results_is_an_error_that_says_what_to_do(tmp_path, capsys):
    code, said = report(tmp_path, tmp_path / "report.html", capsys)
    assert code == 2
    assert "has no results; to write some: actdma measure --json FILE" in said
    code, said = report(tmp_path / "no", tmp_path / "report.html", capsys)
    assert (code, said.strip()) == (2, f"actdma: {tmp_path / 'no'} is no folder")


def test_a_browser_draws_it_without_a_complaint(results, tmp_path, capsys):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        pytest.skip("no Chromium on this machine")
    out = tmp_path / "report.html"
    report(results, out, capsys)
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000"]
    options += ["--enable-logging=stderr", "--dump-dom", out.as_uri()]
    done = subprocess.run(
        [browser, *options], capture_output=True, text=True, timeout=120, check=True
    )
    assert "CONSOLE" not in done.stderr
    assert done.stdout.count('class="main-svg"') >= 2
