"""The notebooks, where pynq finds them (entry point ``pynq.notebooks``)."""
