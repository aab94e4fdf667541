"""Zero-value compression with packed exponents: floating-point elements as bit planes.

Neighbouring activations are of like magnitude: their exponents need few bits as distances from the
group's largest.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from . import records


@dataclasses.dataclass(frozen=True)
class Zve:
    """The `records.Split` of floating-point elements.

    ``element_bytes`` 4 with ``exponent_bits`` 8 (float32), or 2 with 8 (bfloat16) or 5 (float16).
    """

    element_bytes: int
    exponent_bits: int

    @property
    def mantissa_bits(self) -> int:
        """23, 7 or 10."""
        return 8 * self.element_bytes - 1 - self.exponent_bits

    def record(self, elements: np.ndarray) -> tuple[int, np.ndarray]:
        """See `records.Split`."""
        wide = elements.astype(np.int64)
        exponents = wide >> self.mantissa_bits & ((1 << self.exponent_bits) - 1)
        signs = wide >> (8 * self.element_bytes - 1)
        largest = int(exponents.max())
        width = (largest - int(exponents.min())).bit_length()
        code = width if width <= 6 else 7
        signed = int(signs.any())
        parts = [
            (wide, self.mantissa_bits),
            (signs, signed),
            (largest - exponents, self._width(code)),
        ]
        words = [records.planes(values, count, 32) for values, count in parts]
        return largest | signed << 8 | code << 9, np.concatenate(words)

    def length(self, header: int) -> int | None:
        """See `records.Split`."""
        width = self._width(header >> 9)
        if width > self.exponent_bits:
            return None
        return self.mantissa_bits + (header >> 8 & 1) + width

    def elements(self, header: int, record: np.ndarray) -> np.ndarray:
        """See `records.Split`."""
        m, signed = self.mantissa_bits, header >> 8 & 1
        mantissas = records.values(record[:m], 32)
        signs = records.values(record[m : m + signed], 32)
        distances = records.values(record[m + signed :], 32)
        field = np.uint64((1 << self.exponent_bits) - 1)
        exponents = (np.uint64(header & 0xFF) - distances) & field
        out = signs << np.uint64(8 * self.element_bytes - 1) | exponents << np.uint64(m) | mantissas
        return out.astype(f"<u{self.element_bytes}")

    @staticmethod
    def _width(code: int) -> int:
        return 8 if code == 7 else code
