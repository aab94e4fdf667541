"""What a user meets before the first tensor: imports, missing extras, wheels."""

import email
import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
# A new environment is to see what is installed in it, not the checkout.
CLEAN = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def python(code, **env):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env}
    )


def test_import_is_silent_and_touches_neither_torch_nor_pynq():
    heavy = "{'torch', 'pynq', 'hls4ml', 'matplotlib', 'lightning', 'transformers'}"
    result = python(f"import sys, actdma; assert not {heavy} & set(sys.modules)")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("missing", "use", "extra"),
    [
        ("pynq", "actdma.open_board('emulated')", "actdma[emulation]"),
        ("torch", "actdma.offload()", "actdma[torch]"),
        ("lightning", "import actdma.integrations.lightning", "actdma[lightning]"),
        ("transformers", "import actdma.integrations.transformers", "actdma[transformers]"),
        ("accelerate", "import actdma.integrations.transformers", "actdma[transformers]"),
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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from the sdist, in an environment of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(["git", "clone", "-q", ROOT, folder / "source"], check=True)
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", folder / "dist", folder / "source"], check=True
    )
    (built,) = (folder / "dist").glob("actdma-*.whl")
    return built


@pytest.fixture(scope="module")
def fresh(tmp_path_factory, wheel):
    """The Python of a new environment with the wheel and what it asks for, nothing else."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=True)
    fresh_python = folder / "bin" / "python"
    install = [fresh_python, "-m", "pip", "install", "-q", wheel]
    subprocess.run(install, check=True, env=CLEAN)
    return fresh_python


@pytest.mark.slow
def test_wheel_has_all_sources_and_works(tmp_path, wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.startswith("actdma/native/_native") for name in names)
    assert any(name.startswith("actdma/emulation/_fabric") for name in names)
    assert "actdma/overlay/boards.toml" in names
    assert "actdma/report/page.css" in names
    assert "actdma/notebooks/first_transfer.ipynb" in names
    assert "actdma/emulation/include/actdma_serve.hpp" in names
    assert not [name for name in names if name.endswith(".cpp")]
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


@pytest.mark.slow
def test_fresh_environment_works_with_the_newest_numpy(tmp_path, fresh):
    """The base needs no more than it declares, and not the NumPy that pynq wants."""
    code = (
        "import actdma, numpy as np; x = np.arange(9.0)\n"
        "for backend in ('native', 'reference'):\n"
        "    assert (actdma.decompress(actdma.compress(x, backend=backend), backend) == x).all()\n"
        "print(np.__version__)"
    )
    result = subprocess.run(
        [fresh, "-W", "error", "-c", code], capture_output=True, text=True, cwd=tmp_path, env=CLEAN
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout.split(".")[0]) >= 2
    subprocess.run([fresh, "-m", "pip", "check"], check=True)


@pytest.mark.slow
def test_wheel_passes_the_check_of_every_wheel(tmp_path, fresh):
    """What `make wheels` runs (docs/packaging.md)."""
    vectors = tmp_path / "vectors"
    subprocess.run([sys.executable, ROOT / "tests/wheels/vectors.py", vectors], check=True)
    check = [fresh, "-I", ROOT / "tests/wheels/check.py", vectors]
    result = subprocess.run(check, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    isas = [line.split(":")[0] for line in result.stdout.splitlines() if "vectors" in line]
    assert "portable" in isas
    assert "Card: 7 codecs" in result.stdout
    changed = bytearray(vectors.read_bytes())
    changed[len(changed) // 2] ^= 1
    vectors.write_bytes(changed)
    assert subprocess.run(check, capture_output=True, cwd=tmp_path).returncode != 0


@pytest.mark.slow
def test_emulation_extra_resolves_to_what_pynq_can_use(tmp_path, wheel, fresh):
    """pynq is an sdist that pins NumPy and setuptools: the extra's ranges agree with it."""
    report = tmp_path / "report.json"
    what = f"actdma[emulation] @ {wheel.as_uri()}"
    subprocess.run(
        [fresh, "-m", "pip", "install", "-q", "--dry-run", "--report", report, what], check=True
    )
    found = [entry["metadata"] for entry in json.loads(report.read_text())["install"]]
    versions = {entry["name"].lower(): entry["version"] for entry in found}
    assert versions["pynq"].startswith("4.")
    assert versions["numpy"].startswith("1.")


@pytest.mark.slow
def test_declared_python_versions(wheel):
    """pip refuses a Python that the dependencies do not run on, before it builds anything."""
    (name,) = (n for n in zipfile.ZipFile(wheel).namelist() if n.endswith("/METADATA"))
    metadata = email.message_from_bytes(zipfile.ZipFile(wheel).read(name))
    allowed = SpecifierSet(metadata["Requires-Python"])
    assert [v for v in ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14") if v in allowed] == [
        "3.10",
        "3.11",
        "3.12",
    ]
