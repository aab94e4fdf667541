"""Training with lossy activations: accuracy, memory, step time and gradients, beside the baseline.

Commands, run in the folder `benchmarks`: ``python -m lossy.resnet``, ``python -m lossy.resmlp``.
"""
