"""Finds Vitis and Vivado, 2022.2 to 2025.2 (and later ones, unseen)."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from . import BuildError

OLDEST = (2022, 2)
UNIFIED = (2023, 2)  # the first whose v++ compiles HLS by a .cfg file and packages it
NEWEST_KNOWN = (2025, 2)
ROOTS = (Path("/tools/Xilinx"), Path("/opt/Xilinx"))
VARIABLES = ("XILINX_VITIS", "XILINX_HLS", "XILINX_VIVADO")
_PRODUCTS = ("Vitis", "Vitis_HLS", "Vivado")

Version = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Tools:
    """The tools of one build. ``hls``: path of v++ or vitis_hls; ``packager``: of vitis-run, where
    there is one; ``vivado``: of Vivado; ``env``: the environment they run in."""

    hls: str
    packager: str | None
    vivado: str
    version: Version
    env: Mapping[str, str]

    @property
    def unified(self) -> bool:
        """Whether HLS is compiled by v++ and a .cfg file, rather than by vitis_hls and Tcl."""
        return Path(self.hls).name == "v++"


def find_tools(env: Mapping[str, str] | None = None, roots: Sequence[Path] = ROOTS) -> Tools:
    """The tools of the environment (PATH, XILINX_*), else the newest installed below ``roots``.

    `BuildError` with one sentence if something is missing, too old, or of two versions.
    """
    env = dict(os.environ if env is None else env)
    _add_variables(env)
    names = ("v++", "vitis_hls", "vivado")
    if not any(shutil.which(name, path=env.get("PATH", "")) for name in names):
        env = next(_installed(env, roots), env)
    return _tools_of(env, roots)


def text(version: Version) -> str:
    """``(2023, 2)`` as "2023.2"."""
    return f"{version[0]}.{version[1]}"


def _add_variables(env: dict[str, str]) -> None:
    """Put the tools that XILINX_* name first on PATH, as the settings scripts do."""
    for variable in VARIABLES:
        folder = env.get(variable)
        if not folder:
            continue
        if not Path(folder, "bin").is_dir():
            raise BuildError(
                f"{variable} is {folder}, where there is no bin folder: source the settings64.sh "
                "of an installed Vitis, or unset it"
            )
        env["PATH"] = os.pathsep.join([str(Path(folder, "bin")), env.get("PATH", "")])


def _installed(env: Mapping[str, str], roots: Sequence[Path]) -> Iterator[dict[str, str]]:
    """The environment of each installed version that has Vivado, the newest first."""
    found: dict[Version, list[Path]] = {}
    for root in roots:
        for product in _PRODUCTS:
            # Until 2024.2 <root>/Vitis/<version>, from 2025.1 on <root>/<version>/Vitis.
            for folder in [*root.glob(f"{product}/20*.*"), *root.glob(f"20*.*/{product}")]:
                version = _parse(str(folder.relative_to(root)))
                if version is not None and (folder / "settings64.sh").is_file():
                    found.setdefault(version, []).append(folder)
    for version in sorted(found, reverse=True):
        if any("Vivado" in folder.parts for folder in found[version]):
            yield _sourced(env, found[version])


def _sourced(env: Mapping[str, str], folders: Sequence[Path]) -> dict[str, str]:
    """``env`` after the settings scripts in ``folders``."""
    script = 'for file; do source "$file" >&2 || exit; done; exec env -0'
    files = [str(folder / "settings64.sh") for folder in folders]
    result = subprocess.run(
        ["bash", "-c", script, "settings", *files], env=dict(env), capture_output=True, text=True
    )
    if result.returncode:
        raise BuildError(f"{' and '.join(files)} failed: {result.stderr.strip()[-500:]}")
    return dict(entry.split("=", 1) for entry in result.stdout.split("\0") if "=" in entry)


def _tools_of(env: dict[str, str], roots: Sequence[Path]) -> Tools:
    path = env.get("PATH", "")
    hls, version = _find_hls(env)
    vivado = shutil.which("vivado", path=path)
    missing = [] if hls else ["v++ (or vitis_hls)"]
    if not vivado:
        missing.append("vivado")
    if missing:
        searched = ", ".join(["PATH", *VARIABLES, *map(str, roots)])
        raise BuildError(
            f"{' and '.join(missing)} not found: install Vitis {text(OLDEST)} to "
            f"{text(NEWEST_KNOWN)}, which brings Vivado, and source its settings64.sh "
            f"(looked in {searched})"
        )
    if version < OLDEST:
        raise BuildError(f"{hls} is {text(version)}; the oldest that will do is {text(OLDEST)}")
    other = _version_of(vivado, "-version", env)
    if other != version:
        raise BuildError(
            f"{hls} is {text(version)} but {vivado} is {text(other)}: source the settings64.sh of "
            "one version"
        )
    packager = shutil.which("vitis-run", path=path)
    return Tools(hls, packager, vivado, version, env)


def _find_hls(env: Mapping[str, str]) -> tuple[str | None, Version]:
    """v++ where it is new enough to compile HLS, else vitis_hls; its version."""
    path = env.get("PATH", "")
    unified = shutil.which("v++", path=path)
    version = _version_of(unified, "--version", env) if unified else (0, 0)
    if version >= UNIFIED:
        return unified, version
    older = shutil.which("vitis_hls", path=path)
    if older is not None:
        return older, _version_of(older, "-version", env)
    if unified is not None:
        raise BuildError(
            f"vitis_hls not found beside {unified} {text(version)}, which cannot compile HLS by "
            f"itself (from {text(UNIFIED)} on it can): source the settings64.sh of Vitis HLS, too"
        )
    return None, (0, 0)


def _version_of(tool: str, option: str, env: Mapping[str, str]) -> Version:
    try:
        result = subprocess.run(
            [tool, option],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{tool} {option} does not run: {error}") from error
    version = _parse(result.stdout)
    if version is None:
        last = (result.stdout.strip().splitlines() or ["nothing"])[-1]
        raise BuildError(f"{tool} {option} names no version; it says: {last}")
    return version


def _parse(string: str) -> Version | None:
    match = re.search(r"\b[vV]?(20\d\d)\.(\d)", string)
    return (int(match[1]), int(match[2])) if match else None
