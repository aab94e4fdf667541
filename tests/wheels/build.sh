#!/usr/bin/env bash
# build.sh [--aarch64] PYTHON...: makes the sdist, and of it a wheel for each of these Pythons, in
# dist/. Wheels for this machine are checked, each in an environment of its own, outside the
# checkout. Those for 64-bit ARM are cross-compiled with Debian's g++-aarch64-linux-gnu: CPython's
# headers are the same for both. BUILDER is a Python with `build`, and what the tests need.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
builder=${BUILDER:-python3}
target=$(uname -m)
if [ "$1" = --aarch64 ]; then
  shift
  target=aarch64
  export _PYTHON_HOST_PLATFORM=linux-aarch64
  export CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++
fi

version=$(sed -n 's/^VERSION = "\(.*\)"/\1/p' host/actdma/version.py)
sdist=dist/actdma-$version.tar.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
env -u _PYTHON_HOST_PLATFORM "$builder" -m build -q --sdist --outdir dist
env -u _PYTHON_HOST_PLATFORM "$builder" "$here/vectors.py" "$work/vectors"
for python in "$@"; do
  tag=$("$python" -c 'import sys; print("%d%d" % sys.version_info[:2])')
  if [ "$target" != "$(uname -m)" ]; then
    export SETUPTOOLS_EXT_SUFFIX=.cpython-$tag-$target-linux-gnu.so
  fi
  "$python" -m pip wheel -q --no-deps --no-cache-dir --wheel-dir dist "$sdist"
  wheel=dist/actdma-$version-cp$tag-cp$tag-linux_$target.whl
  echo "$wheel"
  if [ "$target" = "$(uname -m)" ]; then
    env -u PYTHONPATH "$python" -m venv "$work/$tag"
    env -u PYTHONPATH "$work/$tag/bin/pip" install -q "$wheel[emulation]"
    (cd "$work" && "$work/$tag/bin/python" -I "$here/check.py" vectors)
  fi
done
