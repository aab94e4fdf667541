"""What the tests of `actdma.offload` begin with."""

import torch

import actdma


def offload(model=None, **options):
    """A session that packs even the smallest tensor, on the CPU unless told otherwise."""
    return actdma.offload(model, **{"backend": "native", "min_bytes": 1, "min_ratio": 0, **options})


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def records(session):
    return session.report().records
