"""Builds the two C++ extensions; everything else is in pyproject.toml."""

import platform
from glob import glob

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import find_packages, setup

ParallelCompile("ACTDMA_BUILD_JOBS").install()


# The emulated fabric's speed hangs on these; every x86-64 CPU since 2009 has them.
X86 = ("-msse4.2", "-mpopcnt") if platform.machine() == "x86_64" else ()


def extension(name: str, folder: str, flags: tuple[str, ...] = ()) -> Pybind11Extension:
    headers = [h for d in (folder, "hls/include") for h in glob(f"{d}/**/*.hpp", recursive=True)]
    return Pybind11Extension(
        name,
        sorted(glob(f"{folder}/*.cpp")),
        include_dirs=["hls/include"],
        depends=headers,
        cxx_std=17,
        extra_compile_args=["-O2", "-g0", "-Wall", "-Wextra", "-Wno-unknown-pragmas", *flags],
    )


setup(
    packages=[*find_packages("host"), "actdma.overlay"],
    package_dir={"": "host", "actdma.overlay": "overlay"},
    package_data={"actdma.overlay": ["*.toml"]},
    ext_modules=[
        extension("actdma.native._native", "host/actdma/native"),
        extension("actdma.emulation._fabric", "host/actdma/emulation", ("-O3", *X86)),
    ],
)
