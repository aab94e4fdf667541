"""Builds the two C++ extensions, and says where pynq finds overlays and notebooks; everything else
is in pyproject.toml."""

import os
import shutil
import sysconfig
from glob import glob
from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ParallelCompile("ACTDMA_BUILD_JOBS").install()


# The emulated fabric's speed hangs on these; every x86-64 CPU since 2009 has them.
X86 = ("-msse4.2", "-mpopcnt") if sysconfig.get_platform() == "linux-x86_64" else ()
# `make sanitize` builds with its own options.
SANITIZE = os.environ.get("ACTDMA_SANITIZE", "").split()


def extension(name: str, folder: str, flags: tuple[str, ...] = ()) -> Pybind11Extension:
    headers = [h for d in (folder, "hls/include") for h in glob(f"{d}/**/*.hpp", recursive=True)]
    return Pybind11Extension(
        name,
        sorted(glob(f"{folder}/*.cpp")),
        include_dirs=["hls/include"],
        depends=headers,
        cxx_std=17,
        extra_compile_args=[
            *("-O2", "-g0", "-Wall", "-Wextra", "-Wno-unknown-pragmas", *flags),
            *SANITIZE,
        ],
        extra_link_args=SANITIZE,
    )


class BuildWithOverlay(build_py):
    """Puts boards and block design into the wheel; an editable install reads ``overlay/``."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, "actdma", "overlay")
            target.mkdir(parents=True, exist_ok=True)
            for file in glob("overlay/*.toml"):
                shutil.copy(file, target)


setup(
    # The headers are a package to setuptools, which would leave out one that is not listed.
    packages=[*find_packages("host"), "actdma.emulation.include", "actdma.notebooks"],
    package_dir={"": "host", "actdma.notebooks": "notebooks"},
    include_package_data=False,  # MANIFEST.in is of the sdist
    package_data={
        "actdma.notebooks": ["*.ipynb"],
        "actdma.emulation": ["include/*"],
        "actdma.report": ["page.css"],
    },
    entry_points={
        "console_scripts": ["actdma = actdma.cli:main"],
        "pynq.overlays": ["actdma = actdma.overlay.bitstreams"],
        "pynq.notebooks": ["actdma = actdma.notebooks"],
    },
    cmdclass={"build_py": BuildWithOverlay},
    ext_modules=[
        # Products and sums are rounded one by one (bsr): no fused multiply-add.
        extension("actdma.native._native", "host/actdma/native", ("-O3", "-ffp-contract=off")),
        extension("actdma.emulation._fabric", "host/actdma/emulation", ("-O3", *X86)),
    ],
)
