"""What a user meets before the first tensor: imports, missing extras, wheels."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def python(code, **env):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env}
    )


def test_import_is_silent_and_touches_neither_torch_nor_pynq():
    heavy = "{'torch', 'pynq', 'hls4ml', 'matplotlib'}"
    result = python(f"import sys, actdma; assert not {heavy} & set(sys.modules)")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("missing", "use", "extra"),
    [
        ("pynq", "actdma.open_board('emulated')", "actdma[emulation]"),
        ("torch", "actdma.offload()", "actdma[torch]"),
    ],
)
def test_missing_extra_is_one_sentence_that_says_what_to_install(missing, use, extra):
    result = python(
        f"import sys; sys.modules['{missing}'] = None\nimport actdma\n"
        f"try: {use}\nexcept (ImportError, RuntimeError) as error: print(error)"
    )
    assert extra in result.stdout
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""


def test_public_face():
    names = "compress decompress open_board open_alveo offload emulation Frame FrameError"
    result = python(f"import actdma; [getattr(actdma, n) for n in '{names}'.split()]")
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_wheel_and_sdist_build_in_isolation_with_all_sources(tmp_path):
    """The wheel is built from the sdist, in an environment of its own."""
    source = tmp_path / "source"
    subprocess.run(["git", "clone", "-q", ROOT, source], check=True)
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", tmp_path / "dist", source], check=True
    )
    (wheel,) = (tmp_path / "dist").glob("actdma-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.startswith("actdma/native/_native") for name in names)
    assert any(name.startswith("actdma/emulation/_fabric") for name in names)
    assert "actdma/overlay/boards.toml" in names
    target = tmp_path / "installed"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, wheel],
        check=True,
    )
    code = (
        "import actdma, numpy as np; x = np.arange(9.0); assert 'installed' in actdma.__file__\n"
        "for open_device in (actdma.open_board, actdma.open_alveo):\n"
        "    with open_device('emulated') as device:\n"
        "        assert (actdma.decompress(actdma.compress(x), device) == x).all()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target)},
    )
    assert result.returncode == 0, result.stderr
