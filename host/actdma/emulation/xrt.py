"""Alveo cards that are not there, below the API of `pyxrt`.

    with EmulatedCard("u50") as card:
        device = card.pyxrt.device(0)
        uuid = device.load_xclbin(card.xclbin)

Every compute unit is the C++ of its top with memory ports, run in a thread of its own. Modelled:
devices, xclbin files, compute units, banks of memory that hold what was synchronised and nothing
else, runs and the states they end in. Not modelled: time (a run that would never end times out at
once), PCIe, several programs on a card. Names and arguments are those of pyxrt (XRT,
src/python/pybind11).
"""

from __future__ import annotations

import concurrent.futures
import enum
import functools
import json
import os
import re
import shutil
import sys
import tempfile
import types
import uuid as uuids
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from ..overlay.design import load_platforms
from .faults import RUN_FAULTS, Fault, Faults


class ErtCmdState(enum.IntEnum):
    """`pyxrt.ert_cmd_state`, the states of ert.h that pyxrt names."""

    ERT_CMD_STATE_NEW = 1
    ERT_CMD_STATE_QUEUED = 2
    ERT_CMD_STATE_COMPLETED = 4
    ERT_CMD_STATE_ERROR = 5
    ERT_CMD_STATE_ABORT = 6
    ERT_CMD_STATE_SUBMITTED = 7
    ERT_CMD_STATE_TIMEOUT = 8
    ERT_CMD_STATE_NORESPONSE = 9


_FAULT_STATES = {
    Fault.RUN_ERROR: ErtCmdState.ERT_CMD_STATE_ERROR,
    Fault.RUN_ABORTED: ErtCmdState.ERT_CMD_STATE_ABORT,
    Fault.RUN_UNANSWERED: ErtCmdState.ERT_CMD_STATE_NORESPONSE,
    Fault.RUN_ENDLESS: ErtCmdState.ERT_CMD_STATE_TIMEOUT,
    Fault.RUN_STUCK: ErtCmdState.ERT_CMD_STATE_SUBMITTED,
}
# A run in one of these has not ended.
_UNFINISHED = (ErtCmdState.ERT_CMD_STATE_SUBMITTED, ErtCmdState.ERT_CMD_STATE_TIMEOUT)


class SyncDirection(enum.Enum):
    """`pyxrt.xclBOSyncDirection`."""

    XCL_BO_SYNC_BO_TO_DEVICE = 0
    XCL_BO_SYNC_BO_FROM_DEVICE = 1


class DeviceInfo(enum.Enum):
    """`pyxrt.xrt_info_device`, as far as a card tells it."""

    name = 0
    bdf = 1
    max_clock_frequency_mhz = 2


class Unit:
    """A compute unit called ``name``. ``banks``: of the memory, for packet and answer;
    ``cycles``: clock cycles of the last run."""

    def __init__(
        self, name: str, banks: tuple[str, str], lanes: int, timed: bool, faults: Faults
    ) -> None:
        from ._fabric import ComputeUnit

        engine = re.fullmatch(r"actdma_(\w+)_maxi_\d+", name).group(1)
        self.banks = banks
        self.cycles = 0
        self._name = name
        self._faults = faults
        self._engine = ComputeUnit(engine, lanes, timed)
        self._worker = concurrent.futures.ThreadPoolExecutor(1)

    def start(self, *arguments: Any) -> concurrent.futures.Future:
        """Run behind the runs that were started before; ends in a state."""
        return self._worker.submit(self._run, *arguments)

    def close(self) -> None:
        """End the thread."""
        self._worker.shutdown()

    def _run(self, source: Bo, target: Bo, packet_bytes: int, capacity: int) -> ErtCmdState:
        if injection := self._faults.strike(RUN_FAULTS, self._name):
            return _FAULT_STATES[injection.fault]
        self.cycles = self._engine.run(source.memory, target.memory, packet_bytes, capacity)
        return ErtCmdState.ERT_CMD_STATE_COMPLETED


class EmulatedCard:
    """A card and the module `pyxrt` that finds it as device 0.

    ``platform``: a name in ``overlay/alveo.toml``; ``lanes``: 32-bit words per beat, None for the
    platform's; ``timed``: count clock cycles (slower). ``xclbin``: path of the file to load;
    ``units``: the compute units by name; ``faults``: what goes wrong; ``inject``: lets it, see
    `Faults.inject`. ValueError for an unknown platform.
    """

    def __init__(self, platform: str = "u50", lanes: int | None = None, timed: bool = True) -> None:
        platforms = load_platforms()
        if platform not in platforms:
            raise ValueError(f"unknown platform {platform!r}; known are {', '.join(platforms)}")
        self.table = platforms[platform]
        self.timed = timed
        self.lanes = lanes or self.table["lanes"]
        banks = {
            f"{kernel}_{number}": (ports["packet"], ports["answer"])
            for kernel, placed in self.table["units"].items()
            for number, ports in enumerate(placed, 1)
        }
        self.faults = Faults(RUN_FAULTS, banks)
        self.inject = self.faults.inject
        self.units = {
            name: Unit(name, banks[name], self.lanes, timed, self.faults) for name in banks
        }
        memory = self.table["memory"]
        self.banks = [f"{memory['name']}[{number}]" for number in range(memory["banks"])]
        self.free = dict.fromkeys(self.banks, memory["bank_bytes"])
        self.loaded: Xclbin | None = None
        self.pyxrt = _module(self)
        folder = tempfile.mkdtemp(prefix="actdma-")
        self._remove_files = weakref.finalize(self, _remove, folder, os.getpid())
        self.xclbin = str(Path(folder, "actdma.xclbin"))
        write_xclbin(self.xclbin, self.table["platform"], self.table["units"])

    def activate(self) -> None:
        """Let ``import pyxrt`` find this card until `close`."""
        sys.modules["pyxrt"] = self.pyxrt

    def cycles(self, unit: str) -> int | None:
        """Clock cycles of the last run of ``unit``; None where time is not modelled."""
        return self.units[unit].cycles if self.timed else None

    def close(self) -> None:
        """End the units' threads and remove the files."""
        if sys.modules.get("pyxrt") is self.pyxrt:
            del sys.modules["pyxrt"]
        for unit in self.units.values():
            unit.close()
        self._remove_files()

    def __enter__(self) -> EmulatedCard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_xclbin(path: str | os.PathLike[str], platform: str, units: dict[str, list[Any]]) -> None:
    """What an emulated card takes for an xclbin: the platform's name, and by kernel its compute
    units."""
    counts = {kernel: len(placed) for kernel, placed in units.items()}
    Path(path).write_text(json.dumps({"platform": platform, "kernels": counts}), "utf-8")


class Xclbin:
    """`pyxrt.xclbin`."""

    def __init__(self, filename: str) -> None:
        try:
            data = json.loads(Path(filename).read_bytes())
            self.platform, self.kernels = data["platform"], data["kernels"]
        except OSError as error:
            raise RuntimeError(f"failed to open file '{filename}' for reading: {error}") from None
        except (ValueError, KeyError, TypeError):
            raise RuntimeError(f"'{filename}' is not a valid xclbin") from None
        self.uuid = uuids.uuid4()

    def get_xsa_name(self) -> str:
        """The platform it was built for."""
        return self.platform

    def get_uuid(self) -> uuids.UUID:
        """What kernels are opened with."""
        return self.uuid


class Device:
    """`pyxrt.device`."""

    def __init__(self, card: EmulatedCard, index: int) -> None:
        if index != 0:
            raise RuntimeError(f"Could not open device with index '{index}'")
        self.card = card

    def load_xclbin(self, xclbin: Xclbin | str) -> uuids.UUID:
        """Program the card."""
        xclbin = Xclbin(xclbin) if isinstance(xclbin, str) else xclbin
        if xclbin.platform != self.card.table["platform"]:
            raise RuntimeError(
                f"xclbin is for {xclbin.platform}, the card is {self.card.table['platform']}"
            )
        self.card.loaded = xclbin
        return xclbin.uuid

    def get_info(self, key: DeviceInfo) -> str:
        """A property as text."""
        return {
            DeviceInfo.name: self.card.table["platform"],
            DeviceInfo.bdf: "0000:00:00.0",
            DeviceInfo.max_clock_frequency_mhz: str(self.card.table["clock_mhz"]),
        }[key]


class Kernel:
    """`pyxrt.kernel`, opened on one compute unit: ``kernel:{unit}``."""

    def __init__(self, device: Device, uuid: uuids.UUID, name: str) -> None:
        card = device.card
        if card.loaded is None or card.loaded.uuid != uuid:
            raise RuntimeError("No such xclbin on the device")
        kernel, _, unit = name.partition(":")
        count = card.loaded.kernels.get(kernel)
        if count is None:
            raise RuntimeError(f"No such kernel '{kernel}'")
        units = {f"{kernel}_{number}" for number in range(1, count + 1)}
        if unit.strip("{}") not in units:
            raise RuntimeError(f"No compute units matching '{unit}'")
        self.card = card
        self.unit = card.units[unit.strip("{}")]

    def group_id(self, argument: int) -> int:
        """The bank that a buffer argument is connected to."""
        if argument not in (0, 1):
            raise RuntimeError(f"No memory connection of argument {argument}")
        return self.card.banks.index(self.unit.banks[argument])


class Bo:
    """`pyxrt.bo`: ``memory`` is the card's, `map` the host's, and only `sync` copies."""

    normal = 0

    def __init__(self, device: Device, size: int, _flags: int, group: int) -> None:
        bank = device.card.banks[group]
        free = device.card.free[bank]
        if size > free:
            raise RuntimeError(
                f"unable to allocate {size} bytes in bank {bank}: {free} bytes are free"
            )
        self.group = group
        self.memory = np.full(size, 0xCD, np.uint8)
        self._host = np.full(size, 0xCD, np.uint8)
        device.card.free[bank] -= size
        weakref.finalize(self, _give_back, device.card.free, bank, size)

    def map(self) -> memoryview:
        """The host's copy."""
        return memoryview(self._host)

    def size(self) -> int:
        """Bytes of the buffer."""
        return self.memory.size

    def sync(self, direction: SyncDirection, size: int | None = None, offset: int = 0) -> None:
        """Copy a range one way."""
        stop = self.size() if size is None else offset + size
        if stop > self.size():
            raise RuntimeError(f"Invalid sync: bytes {offset} to {stop} of {self.size()}")
        source, target = self._host, self.memory
        if direction == SyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE:
            source, target = target, source
        target[offset:stop] = source[offset:stop]


class Run:
    """`pyxrt.run`."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._arguments: dict[int, Any] = {}
        self._future: concurrent.futures.Future | None = None

    def set_arg(self, index: int, value: Bo | int) -> None:
        """Set one argument; buffers must lie in the bank it is connected to."""
        if isinstance(value, Bo) and value.group != self._kernel.group_id(index):
            raise RuntimeError(
                f"Buffer in bank '{self._kernel.card.banks[value.group]}' cannot be argument "
                f"{index} of a unit connected to {self._kernel.unit.banks[index]}"
            )
        self._arguments[index] = value

    def start(self) -> None:
        """Start and return at once."""
        self._future = self._kernel.unit.start(*(self._arguments[i] for i in range(4)))

    def wait(self, timeout_ms: int = 0) -> ErtCmdState:
        """The state when the run has ended, at once if it never will (for ever with 0)."""
        if self._future is None:
            return ErtCmdState.ERT_CMD_STATE_NEW
        state = self._future.result()
        if timeout_ms == 0 and state in _UNFINISHED:
            raise RuntimeError("wait(0) on a run that never ends would hang the program")
        return state


def _module(card: EmulatedCard) -> types.ModuleType:
    """The module `pyxrt` on a machine with that card."""
    module = types.ModuleType("pyxrt", "Emulated: actdma.emulation.xrt.")
    module.device = functools.partial(Device, card)
    module.xclbin = Xclbin
    module.kernel = Kernel
    module.bo = Bo
    module.run = Run
    module.ert_cmd_state = ErtCmdState
    module.xclBOSyncDirection = SyncDirection
    module.xrt_info_device = DeviceInfo
    return module


def _give_back(free: dict[str, int], bank: str, size: int) -> None:
    free[bank] += size


def _remove(folder: str, process: int) -> None:
    """Remove the files, but not those of a forked child's parent."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
