"""Callbacks of trainers: `actdma.integrations.lightning` and `actdma.integrations.transformers`.

Each is imported by its own name, and needs the extra of the same name.
"""
