"""Stand-ins for Vitis and Vivado, installed as the real ones are."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
STANDINS = ROOT / "tests" / "vivado"
TCLSH = shutil.which("tclsh")


def executable(path: Path, text: str) -> Path:
    """A shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def put_tools(folder: Path, names: tuple[str, ...], version: str = "2023.2") -> Path:
    """Stand-ins called ``names`` in ``folder``/bin."""
    for name in names:
        if name == "vivado":
            command = f"exec tclsh {STANDINS / 'vivado.tcl'}"
        else:
            command = f"exec {sys.executable} {STANDINS / 'hls.py'} {name}"
        executable(folder / "bin" / name, f'export STANDIN_VERSION={version}\n{command} "$@"\n')
    return folder


def put_install(
    root: Path, version: str, products: tuple[str, ...] = ("Vitis", "Vivado")
) -> list[Path]:
    """An installation below ``root`` as AMD's installer of that version lays it out, with settings
    scripts."""
    tools = {
        "Vitis": ("v++", "vitis-run") if version >= "2023.2" else ("v++",),
        "Vitis_HLS": ("vitis_hls",),
        "Vivado": ("vivado",),
    }
    variables = {"Vitis": "XILINX_VITIS", "Vitis_HLS": "XILINX_HLS", "Vivado": "XILINX_VIVADO"}
    folders = []
    for product in products:
        new = version >= "2025"
        folder = root / version / product if new else root / product / version
        put_tools(folder, tools[product], version)
        (folder / "settings64.sh").write_text(
            f"export {variables[product]}={folder}\nexport PATH={folder}/bin:$PATH\n"
        )
        folders.append(folder)
    return folders


def environment(**variables: str) -> dict[str, str]:
    """This process's environment without Xilinx tools, and ``variables``."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("XILINX")}
    return {**kept, **variables}


def path_with(*folders: Path) -> str:
    """PATH with the bin folders of ``folders`` first."""
    return os.pathsep.join([*(str(folder / "bin") for folder in folders), os.environ["PATH"]])
