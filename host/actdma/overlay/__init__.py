"""The overlay: boards and block design as data, and the bitstreams that were fetched.

`actdma.overlay.design` reads ``overlay/*.toml``; `actdma.overlay.cache` keeps bitstreams.
"""
