"""`actdma report`, on files that the commands and the benchmarks have written, and on others."""

import argparse
import copy
import dataclasses
import html
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("plotly")
pytest.importorskip("torch")
pytest.importorskip("rich")

import common
import density

import networks
from actdma.api import backend_of
from actdma.cli import main
from actdma.measure.run import Options, Step, compare
from actdma.report import ReportError, write_page
from actdma.report.exhibits import SECTIONS
from actdma.report.shapes import Maybe, ShapeError, shaped

ROOT = Path(__file__).parents[1]
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PWNED = "<script>console.error('pwned')</script><img src=x onerror=\"console.error('pwned')\">"


def publish(folder, name, figures, kind="measured", rows=(("a", "1.5"),), title="A title"):
    args = argparse.Namespace(json=folder / f"{name}.json", docs=None)
    study = common.Study(name, title, kind)
    common.publish(study, ("network", "value"), rows, figures, "what it is", args)


def write_density(folder):
    course = dataclasses.asdict(density.COURSES[0])
    points = [
        dataclasses.asdict(density.Point(f, 10 + 50 * f, {"relu1": 0.5 - f / 3, "pool1": 0.7}, 0.6))
        for f in density.FRACTIONS
    ]
    figures = [{"course": course, "points": points, "trained": {"test": 56.4}}]
    publish(folder, "density", figures)


def write_rivals(folder):
    rates = {"compress": 4.2, "decompress": 3.9, "memcpy": 7.0}
    figures = [
        {"data": data, "compressor": name, "ratio": ratio, **rates}
        for data in ("ReLU", "all")
        for name, ratio in (("zvc", 1.8), ("lz4", 1.6))
    ]
    publish(folder, "rivals", figures)


def write_model(folder):
    gains = ("gain_published_ratio", "gain_any_ratio", "gain_measured_ratio")
    where = {"device": "Titan X", "network": "alexnet"}
    publish(folder, "headline", [{**where, **dict.fromkeys(gains, 0.2)}], "by column")
    grid = {"links": [2.0, 20.0, 200.0], "ratios": [1.0, 3.0], "gains": [[0, 0, 0], [2, 1, 0]]}
    publish(folder, "break-even", [{"device": "V100", **grid}], "modelled")


def write_costs(folder):
    rows = {"plain": 1.0, "zvc": 0.8, "exact + auto": 0.5}
    step = [
        {"network": n, "row": row, "wall_of_plain": 2 - held, "held_of_plain": held}
        for n in ("ResNet-20", "ViT")
        for row, held in rows.items()
    ]
    publish(folder, "step", step)
    publish(folder, "exact", [{**f, "dtype": "float32"} for f in step])
    orders = ("contiguous", "channels_last")
    publish(
        folder, "memory", [{**f, "dtype": "bfloat16", "order": o} for f in step for o in orders]
    )


def run_benchmark(folder, name, *options):
    command = [sys.executable, ROOT / "benchmarks" / f"{name}.py", *options]
    command += ["--json", folder / f"{name}.json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "host")}
    subprocess.run(command, check=True, env=env, capture_output=True, timeout=300)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder with a file of every kind that is drawn, and one that is only a table."""
    folder = tmp_path_factory.mktemp("results")
    step = Step(networks.relu_cnn(), networks.images(), seed=0)
    report = compare(step, backend_of("native"), Options("relu-cnn", backend="native"))
    report.to_json(folder / "measure.json")
    report.to_chrome_trace(folder / "session.json")
    simulate = ["simulate", "--network", "relu-cnn", "--batch", "4", "--ratio", "2"]
    outputs = ["--json", str(folder / "simulate.json"), "--trace", str(folder / "timelines.json")]
    assert main([*simulate, *outputs]) == 0
    run_benchmark(folder, "native", "--mib", "1", "--repeats", "1")
    run_benchmark(folder, "fabric", "--kib", "16")
    run_benchmark(folder, "ratios", "--network", "ResNet-20", "GELU transformer", "--batch", "1")
    run_benchmark(folder, "holdings", "--network", "ResNet-20", "--batch", "1")
    run_benchmark(folder, "layouts", "--network", "ResNet-20", "--batch", "2")
    run_benchmark(folder, "blocks", "--network", "ResNet-20", "--batch", "1")
    run_benchmark(folder, "emulated_board", "--mib", "1", "--repeats", "1", "--zeros", "0", "0.5")
    run_benchmark(folder, "board_stream", "--frames", "3", "--kib", "64", "256")
    run_benchmark(folder, "block_sparse", "--rounds", "1", "--size", "64", "64", "64")
    write_costs(folder)
    write_density(folder)
    write_rivals(folder)
    write_model(folder)
    publish(folder, "of_my_own", [])
    return folder


@pytest.fixture(scope="module")
def page(results):
    path = results / "report.html"
    assert write_page(results, path) == []
    return path


def body_of(path):
    return path.read_text().partition("<body>")[2]


def section(body, anchor):
    return body.partition(f'<section id="{anchor}">')[2].partition("</section>")[0]


# The page


def test_every_kind_of_file_has_its_place(page):
    body = body_of(page)
    for part in SECTIONS[:-1]:
        assert f'<a href="#{part.anchor}">{part.title}</a>' in body
        assert section(body, part.anchor)
    for anchor, charts in {
        "step": 1,
        "networks": 6,
        "density": 1,
        "speed": 3,
        "cost": 3,
        "model": 3,
        "timelines": 2,
        "boards": 4,
        "other": 0,
    }.items():
        assert section(body, anchor).count('class="plotly-graph-div"') == charts, anchor
    assert "of_my_own.json" in section(body, "other")
    assert 'id="notices"' not in body


def test_measured_and_modelled_have_words_and_colours(page):
    body = body_of(page)
    for kind in ("measured", "modelled"):
        assert f'<span class="badge {kind}">{kind}</span>' in body
    charts = re.findall(r'<figure class="([^"]*)"><figcaption>(.*?)</figcaption>', body)
    assert len(charts) == 23
    assert all(f">{kind}</span>" in caption for kind, caption in charts)
    modelled = section(body, "model")
    assert '<figure class="measured"' not in modelled
    assert "milliseconds of a step, modelled" in modelled
    assert "ratio, measured" in section(body, "networks")
    assert '<th class="measured number">ratio, measured</th>' in section(body, "step")


def test_summary_has_the_figures(results, page):
    summary = section(body_of(page), "summary")
    ratio = json.loads((results / "measure.json").read_text())["totals"]["ratio"]
    assert f"<b>{ratio:.2f}</b>" in summary
    gain = json.loads((results / "simulate.json").read_text())["rows"][2]["gain_over_vdnn"]
    assert f"<b>{gain:+.0%}</b>" in summary
    assert "<b>4.2 GB/s at ratio 1.80</b>" in summary


def test_every_record_is_in_the_table_and_can_be_hovered(results, page):
    step = section(body_of(page), "step")
    records = json.loads((results / "measure.json").read_text())["records"]
    assert len(records) > 3
    assert f"({len(records)} rows)" in step
    assert all(step.count(f"#: {record['index']}") >= 3 for record in records)


def test_nothing_is_fetched(page):
    text = page.read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none';")
    assert not re.search(r"https?:", policy)
    assert not re.search(
        r"""<(script|link|img|iframe)[^>]*\s(src|href)=""", text.partition("<script>")[0]
    )
    assert not re.search(r"""\s(src|href)=["'](?!#)""", body_of(page))


def test_a_page_of_one_file_says_what_would_add_the_others(tmp_path, results, capsys):
    shutil.copy(results / "density.json", tmp_path)
    out = tmp_path / "page.html"
    assert main(["report", str(tmp_path), "--out", str(out)]) == 0
    assert f"wrote {out}" in capsys.readouterr().out
    body = body_of(out)
    assert section(body, "density")
    assert not section(body, "networks")
    missing = html.unescape(section(body, "missing"))
    commands = [exhibit.command for part in SECTIONS for exhibit in part.exhibits]
    assert [c for c in commands if f"<code>{c}</code>" not in missing] == [
        "python benchmarks/density.py --data FOLDER --json RESULTS/density.json"
    ]


def test_what_studies_write_is_what_the_report_knows():
    known = {exhibit.what for part in SECTIONS for exhibit in part.exhibits}
    scripts = (ROOT / "benchmarks").glob("*.py")
    names = {n for s in scripts for n in re.findall(r'Study\(\s*"([\w-]+)"', s.read_text())}
    assert len(names) > 12
    assert {f"study {name}" for name in names} <= known


# What is not as it should be


def report_fails(capsys, *arguments):
    assert main(["report", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_no_folder_and_no_files(tmp_path, capsys):
    out = tmp_path / "page.html"
    assert "cannot read the folder" in report_fails(capsys, tmp_path / "none", "--out", out)
    (tmp_path / "a.txt").touch()
    told = report_fails(capsys, tmp_path / "a.txt", "--out", out)
    assert f"pass the folder with the files, {tmp_path}" in told
    assert f"no .json file in {tmp_path}" in report_fails(capsys, tmp_path, "--out", out)
    (tmp_path / "a.json").write_text("[1")
    assert "a.json: it is no JSON" in report_fails(capsys, tmp_path, "--out", out)
    assert not out.exists()


def test_no_room_for_the_page(results, tmp_path, capsys):
    assert "cannot write" in report_fails(capsys, results, "--out", tmp_path)


def test_missing_plotly_is_named(results, tmp_path):
    (tmp_path / "plotly.py").write_text("raise ImportError('no', name='plotly')")
    done = subprocess.run(
        [sys.executable, "-m", "actdma", "report", results, "--out", tmp_path / "page.html"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'host'}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "plotly is missing: pip install 'actdma[report]'" in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is no JSON"),
        ("{", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ("9" * 5000, "it is no JSON"),
        (b"\xff\xfe{}", "it is no JSON"),
        ("[]", "JSON of something that this page does not show"),
        ('{"layers": []}', "JSON of something that this page does not show"),
        ('{"study": 3}', "it.study is 3, not an object"),
        ('{"format": 2, "study": {}}', "its format is 2; this version of actdma reads 1"),
        ('{"format": 1, "records": []}', "it.environment is missing"),
        ('{"records": [], "totals": {}}', "it.environment is missing"),
        ('{"rows are": "modelled"}', "it.title is missing"),
        ('{"traceEvents": []}', "it.otherData is missing"),
        ('{"traceEvents": [], "otherData": {"actdma": "felt"}}', "known are measured, modelled"),
    ],
)
def test_a_bad_file_is_a_notice_beside_the_others(results, tmp_path, text, why, capsys):
    shutil.copy(results / "density.json", tmp_path)
    (tmp_path / "bad.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "folder.json").mkdir()
    out = tmp_path / "page.html"
    assert main(["report", str(tmp_path), "--out", str(out)]) == 0
    notices = html.unescape(section(body_of(out), "notices"))
    for where in (notices, capsys.readouterr().err):
        assert re.search(f"bad.json: .*{re.escape(why)}", where)
        assert "folder.json: it cannot be read" in where


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda step: step["totals"].update(tensors=99), "99"),
        (
            lambda step: step["records"][0].update(raw_bytes=float("nan")),
            "is not a number (NaN)",
        ),
        (lambda step: step.pop("totals"), "totals"),
        (lambda step: step.pop("records"), "records"),
    ],
)
def test_a_step_that_contradicts_itself_is_not_shown(results, tmp_path, spoil, why):
    step = json.loads((results / "measure.json").read_text())
    spoil(step)
    (tmp_path / "measure.json").write_text(json.dumps(step))
    shutil.copy(results / "density.json", tmp_path)
    ((file, reason),) = write_page(tmp_path, tmp_path / "page.html")
    assert file == "measure.json"
    assert why in reason


def test_tiles_of_two_files_of_a_kind_name_their_file(results, tmp_path):
    for name in ("a.json", "b.json"):
        shutil.copy(results / "measure.json", tmp_path / name)
    write_page(tmp_path, tmp_path / "page.html")
    summary = section(body_of(tmp_path / "page.html"), "summary")
    assert "a.json" in summary
    assert "b.json" in summary


def test_ranks_have_a_column_and_bars_of_their_own(results, tmp_path):
    step = json.loads((results / "measure.json").read_text())
    for rank, record in enumerate(step["records"]):
        record["rank"] = rank % 2
    (tmp_path / "measure.json").write_text(json.dumps(step))
    assert write_page(tmp_path, tmp_path / "page.html") == []
    body = body_of(tmp_path / "page.html")
    assert ">rank</th>" in body
    assert "one rank after the other" in body
    assert f"1: {step['records'][1]['module']}" in body


def test_figures_of_another_version_cost_the_chart_alone(tmp_path):
    publish(tmp_path, "rivals", [{"data": "ReLU", "compressor": 3}])
    (notice,) = write_page(tmp_path, tmp_path / "page.html")
    assert notice == (
        "rivals.json",
        "its charts are left out: figures[0].compressor is 3, not text",
    )
    speed = section(body_of(tmp_path / "page.html"), "speed")
    assert "<td>a</td>" in speed
    assert "plotly-graph-div" not in speed


def test_a_table_with_ragged_rows_is_refused(tmp_path):
    publish(tmp_path, "step", [], rows=[("a", "1"), ("b",)])
    with pytest.raises(ReportError, match="a row has 1 cells for 2 columns"):
        write_page(tmp_path, tmp_path / "page.html")


# Texts that say what a file is, and objects whose keys are names, too.
WORDS = {
    *("measured", "modelled", "by column", "X", "M", "process_name", "thread_name"),
    *("native", "fabric", "ratios", "holdings", "density", "rivals", "headline", "break-even"),
}
NAMED = ("ratios", "density")


def spiked(value, named=False):
    """JSON with hostile text in front of every text in it, and of keys where they are names."""
    if isinstance(value, dict):
        keys = {key: PWNED + key if named else key for key in value}
        return {keys[key]: spiked(part, key in NAMED) for key, part in value.items()}
    if isinstance(value, list):
        return [spiked(part) for part in value]
    return PWNED + value + "\ud800" if isinstance(value, str) and value not in WORDS else value


def hostile(folder, results):
    """The files of ``results`` with hostile text in all of them."""
    for file in results.glob("*.json"):
        (folder / file.name).write_text(json.dumps(spiked(json.loads(file.read_text()))))


def test_hostile_text_is_shown_as_it_is(results, tmp_path):
    hostile(tmp_path, results)
    assert write_page(tmp_path, tmp_path / "page.html") == []
    body = body_of(tmp_path / "page.html")
    assert body.count(html.escape(PWNED)) > 100
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", body, re.DOTALL)
    assert all("Plotly.newPlot" in script for script in scripts)
    assert len(scripts) == body.count('class="plotly-graph-div"')
    assert "<img" not in body


ODD = (
    None,
    True,
    -1,
    0,
    1e308,
    float("nan"),
    float("inf"),
    10**400,
    "",
    "x" * 500,
    [],
    {},
    [[]],
    {"a": 1},
)


def spoilt(data, rng):
    """A copy of JSON with one value somewhere replaced, or left out."""
    data = copy.deepcopy(data)
    at = data
    while True:
        key = rng.choice([*at] if isinstance(at, dict) else range(len(at)))
        if not isinstance(at[key], dict | list) or not at[key] or rng.random() < 0.15:
            break
        at = at[key]
    if rng.random() < 0.3:
        del at[key]
    else:
        at[key] = rng.choice(ODD)
    return data


def test_a_spoilt_value_ends_in_a_page_or_a_notice(results, tmp_path, monkeypatch):
    monkeypatch.setattr("actdma.report.page.get_plotlyjs", lambda: "")
    rng = random.Random(0)
    outcomes = {"page": 0, "refused": 0}
    for file in sorted(results.glob("*.json")):
        data = json.loads(file.read_text())
        for _ in range(12):
            (tmp_path / "x.json").write_text(json.dumps(spoilt(data, rng)))
            try:
                write_page(tmp_path, tmp_path / "page.html")
                outcomes["page"] += 1
            except ReportError:
                outcomes["refused"] += 1
    assert min(outcomes.values()) > 20


def test_shapes():
    shape = {"a": [(str, float)], "b": Maybe({str: bool})}
    assert shaped({"a": [["x", 1]], "c": 2}, shape) == {"a": [["x", 1]], "b": None}
    assert shaped({"a": [], "b": {"y": True}}, shape) == {"a": [], "b": {"y": True}}
    for value, where in (
        ([], r"it is a list, not an object"),
        ({"a": None}, r"it\.a is missing"),
        ({"a": [["x"]]}, r"it\.a\[0\] has 1 items, not 2"),
        ({"a": [["x", True]]}, r"it\.a\[0\]\[1\] is True, not a number"),
        ({"a": [["x", 10**400]]}, r"it\.a\[0\]\[1\] is too large a number"),
        ({"a": [], "b": {"y": 1}}, r"it\.b\.y is 1, not true or false"),
    ):
        with pytest.raises(ShapeError, match=where):
            shaped(value, shape)


# In a browser


def browse(page, folder, *options):
    """What headless Chromium says of a page: its DOM, and the messages on its console."""
    done = subprocess.run(
        [
            CHROMIUM,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
            *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}"),
            *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=30000"),
            *options,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")


@needs_chromium
def test_chromium_draws_every_chart_without_a_message(page, tmp_path):
    dom, messages = browse(page, tmp_path, "--dump-dom")
    assert messages == []
    charts = re.findall(r'<div id="chart-\d+"[^>]*>', dom)
    assert len(charts) == 23
    assert all("js-plotly-plot" in chart for chart in charts)  # plotly's, once it has drawn
    assert dom.count('class="trace bars"') > 20
    assert dom.count('class="scatterlayer') > 5


@needs_chromium
def test_chromium_runs_no_hostile_text(results, tmp_path):
    hostile(tmp_path, results)
    write_page(tmp_path, tmp_path / "page.html")
    dom, messages = browse(tmp_path / "page.html", tmp_path, "--dump-dom")
    assert messages == []
    assert "js-plotly-plot" in dom
    assert "<img" not in dom


@needs_chromium
def test_messages_would_be_seen(tmp_path):
    (tmp_path / "page.html").write_text("<p>x<script>console.error('seen')</script>")
    _, messages = browse(tmp_path / "page.html", tmp_path, "--dump-dom")
    assert len(messages) == 1
    assert "seen" in messages[0]


@needs_chromium
def test_a_screenshot_has_both_colours(page, tmp_path):
    image = pytest.importorskip("PIL.Image")
    size, shot = "--window-size=1280,9000", f"--screenshot={tmp_path / 'page.png'}"
    browse(page, tmp_path, size, shot)
    with image.open(tmp_path / "page.png") as picture:
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 24)}
    assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)} <= colours
    assert len(colours) > 100
