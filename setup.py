"""Builds the two C++ extensions; everything else is in pyproject.toml."""

from glob import glob

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import find_packages, setup

ParallelCompile("ACTDMA_BUILD_JOBS").install()


def extension(name: str, folder: str, include_dirs: tuple[str, ...] = ()) -> Pybind11Extension:
    headers = [h for d in (folder, *include_dirs) for h in glob(f"{d}/**/*.hpp", recursive=True)]
    return Pybind11Extension(
        name,
        sorted(glob(f"{folder}/*.cpp")),
        include_dirs=list(include_dirs),
        depends=headers,
        cxx_std=17,
        extra_compile_args=["-O2", "-g0", "-Wall", "-Wextra", "-Wno-unknown-pragmas"],
    )


setup(
    packages=[*find_packages("host"), "actdma.overlay"],
    package_dir={"": "host", "actdma.overlay": "overlay"},
    package_data={"actdma.overlay": ["*.toml"]},
    ext_modules=[
        extension("actdma.native._native", "host/actdma/native", ("hls/include",)),
        extension("actdma.emulation._fabric", "host/actdma/emulation", ("hls/include",)),
    ],
)
