"""python.py under atheris, which chooses inputs by coverage and takes libFuzzer's options."""

import sys

import atheris

with atheris.instrument_imports(include=["actdma"]):
    import python

mutator = python.Mutator(0)


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """A good frame or ``data``, damaged."""
    mutator.random.seed(seed)
    fresh = len(data) < python.HEADER_BYTES or mutator.random.random() < 0.25
    return (mutator.next() if fresh else mutator.mutate(data))[:max_size]


if __name__ == "__main__":
    atheris.Setup(sys.argv, python.test_one_input, custom_mutator=mutate)
    atheris.Fuzz()
