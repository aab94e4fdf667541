#!/usr/bin/env bash
# chroot.sh ARCH FILE [EXTRA]: installs FILE, a wheel or an sdist, in a bare Debian of ARCH (amd64,
# arm64) with the extra (emulation if not given; "" for none), and checks it there. As root, with
# Debian's debootstrap; an ARCH that is not this machine's wants qemu-user-static and binfmt-support,
# too. The system is made once, in build/chroot-ARCH.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
arch=$1 file=$2 extra=${3-emulation}
root=${CHROOT:-$here/../../build/chroot-$arch}
# For a processor that boards have, pynq would compile its display driver, with libdrm.
export PYNQ_BUILD_ARCH=none

inside() {
  env -u PYTHONPATH -u VIRTUAL_ENV LC_ALL=C HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    chroot "$root" "$@"
}

if [ ! -e "$root/made" ]; then
  rm -rf "$root"
  mkdir -p "$(dirname "$root")"
  debootstrap --arch="$arch" --variant=minbase --include=python3-venv,ca-certificates bookworm "$root"
  touch "$root/made"
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"  # this machine's, for pip
if [ "${file%.tar.gz}" != "$file" ]; then  # a wheel wants no compiler
  inside apt-get update -q
  inside apt-get install -qy --no-install-recommends g++ python3-dev
fi
"${PYTHON:-python3}" "$here/vectors.py" "$root/tmp/vectors"
cp "$here/check.py" "$file" "$root/tmp/"
inside rm -rf /venv /root/empty
inside python3 -m venv /venv
inside /venv/bin/pip install -q "/tmp/$(basename "$file")${extra:+[$extra]}"
inside mkdir /root/empty
inside /usr/bin/env -C /root/empty /venv/bin/python -I /tmp/check.py /tmp/vectors
inside /venv/bin/actdma doctor
