"""Memory that `actdma.offload` uses again."""

import gc

import hypothesis
import hypothesis.strategies as st
import numpy as np
import torch

from actdma.offloading import empty_cache
from actdma.offloading.arena import Arena
from actdma.offloading.held import Held
from actdma.offloading.session import _arenas
from sessions import leaf, offload
from threads import run_threads

PACKED, DECODED = _arenas["packed"], _arenas["decoded"]


def test_blocks_are_aligned_and_apart():
    arena = Arena(1 << 16)
    memories = [np.asarray(arena.take(size)) for size in (1, 63, 64, 65, 1000, 0, 1 << 17)]
    for i, memory in enumerate(memories):
        assert memory.ctypes.data % 64 == 0
        memory[:] = i
    for i, memory in enumerate(memories):
        assert (memory == i).all()


def test_memory_comes_back_with_the_last_view_of_it():
    arena = Arena(1 << 16)
    part = np.asarray(arena.take(1000))[10:20]
    assert arena.used == 1024
    del part
    assert arena.used == 0


def test_a_shrunk_block_leaves_its_end_to_others():
    arena = Arena(1 << 16)
    block = arena.take(1 << 16)
    memory = np.asarray(block)[:100]
    block.shrink(100)
    assert arena.used == 128
    np.asarray(arena.take((1 << 16) - 128))[:] = 1
    assert arena.nbytes == 1 << 16
    del block, memory
    assert arena.used == 0


def test_chunks_that_nobody_uses_are_returned():
    arena = Arena(1 << 16)
    kept = arena.take(1 << 16)
    arena.take(1 << 16)
    arena.trim()
    assert arena.nbytes == 1 << 16
    del kept
    arena.trim()
    assert arena.nbytes == 0


@hypothesis.given(st.lists(st.tuples(st.booleans(), st.integers(0, 5000)), max_size=60))
def test_any_order_of_taking_and_returning(steps):
    """Blocks never overlap, and in the end all is one piece again."""
    arena, taken = Arena(8192), []
    for number, (take, size) in enumerate(steps):
        if take:
            block = arena.take(size)
            block.shrink(size // 2)
            memory = np.asarray(block)[: size // 2]
            memory[:] = number % 256
            taken.append((number, memory))
            del block
        elif taken:
            taken.pop(size % len(taken))
        assert all((memory == n % 256).all() for n, memory in taken)
    taken.clear()
    memory = None
    assert arena.used == 0
    assert all(chunk.free == [(0, chunk.nbytes)] for chunk in arena._chunks)


def test_threads_share_an_arena():
    arena, wrong = Arena(1 << 16), []

    def work(number):
        for size in range(1, 400):
            memory = np.asarray(arena.take(size))
            memory[:] = number
            wrong.extend([number] * (not (memory == number).all()))

    run_threads(work, 4)
    assert not wrong
    assert arena.used == 0


def test_held_bytes_are_a_sum_of_shares():
    held = Held()
    shares = [held.add(10), held.add(20)]
    assert (held.now, held.peak) == (30, 30)
    shares.pop()
    assert (held.now, held.peak) == (10, 30)


def step(x):
    with offload() as s:
        h = x * 2
        y = h.sin().sum() + h.cos().sum()
    held = s.held_bytes
    y.backward()
    return held, s


def test_steps_use_the_memory_of_those_before():
    gc.collect()
    empty_cache()
    x = leaf(300_000)
    step(x)
    after_one = PACKED.nbytes, DECODED.nbytes
    for _ in range(5):
        step(x)
    assert (PACKED.nbytes, DECODED.nbytes) == after_one
    assert PACKED.used == DECODED.used == 0
    empty_cache()
    assert PACKED.nbytes == DECODED.nbytes == 0


def test_held_bytes_of_a_session():
    held, s = step(leaf(300_000))
    (record,) = s.report().records
    assert held == record.stored_bytes
    assert s.held_bytes == 0
    assert s.report().held_bytes_peak == record.stored_bytes + record.raw_bytes


def test_a_kept_storage_is_held_once():
    x = leaf(100)
    with offload(min_bytes=1 << 20) as s:
        h = x * 2
        y = h.sin().sum() + h.cos().sum()
    assert s.held_bytes == 400
    y.backward()
    del y
    assert s.held_bytes == 0


def test_a_tensor_with_two_consumers_is_decoded_once_and_freed_after_the_last():
    x = leaf(1000)
    alive = []
    with offload() as s:
        h = x * 2
        y = h.sin() + h.cos()
        z = y.sum()
    hook = x.register_hook(lambda g: alive.append(DECODED.used))
    z.backward()
    hook.remove()
    assert [r.decompressions for r in s.report().records] == [1]
    assert DECODED.used == 0
    assert torch.isfinite(x.grad).all()


def test_a_second_backward_pass_decodes_once_again():
    x = leaf(1000)
    with offload() as s:
        h = x * 2
        y = (h.sin() + h.cos()).sum()
    y.backward(retain_graph=True)
    assert DECODED.used == 0
    y.backward()
    assert [r.decompressions for r in s.report().records] == [2]
