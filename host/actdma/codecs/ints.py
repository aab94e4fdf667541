"""Frame-of-reference packing of integers: a group's least element, and distances from it."""

from __future__ import annotations

import dataclasses

import numpy as np

from . import records


@dataclasses.dataclass(frozen=True)
class Ints:
    """The `records.Split` of integers of ``element_bytes`` 1, 2 or 4 (8 are pairs of 4)."""

    element_bytes: int
    signed: bool

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return 8 * self.element_bytes

    def record(self, elements: np.ndarray) -> tuple[int, np.ndarray]:
        """See `records.Split`."""
        numbers = elements.view(f"<{'i' if self.signed else 'u'}{self.element_bytes}").astype(
            np.int64
        )
        base = int(numbers.min())
        width = (int(numbers.max()) - base).bit_length()
        if width == self.bits:
            base = 0
        group = records.group_size(self.element_bytes)
        # Where the base is 0 a negative distance's lower bits are the element's own.
        body = records.planes(numbers - base, width, group)
        base &= (1 << self.bits) - 1
        if self.element_bytes == 1:
            return base | width << 8, body
        if width == self.bits:
            return width, body
        return width, np.concatenate([np.array([base], "<u4"), body])

    def length(self, header: int) -> int | None:
        """See `records.Split`."""
        width = self._width(header)
        if width > self.bits:
            return None
        return self._base_words(width) + width * (records.group_size(self.element_bytes) // 32)

    def elements(self, header: int, record: np.ndarray) -> np.ndarray:
        """See `records.Split`."""
        skip = self._base_words(self._width(header))
        base = header & 0xFF if self.element_bytes == 1 else int(record[0]) if skip else 0
        distances = records.values(record[skip:], records.group_size(self.element_bytes))
        return (distances + np.uint64(base)).astype(f"<u{self.element_bytes}")

    def _width(self, header: int) -> int:
        return header >> 8 if self.element_bytes == 1 else header & 0x3F

    def _base_words(self, width: int) -> int:
        return int(self.element_bytes > 1 and width < self.bits)
