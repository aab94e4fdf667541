"""The codecs: per codec its parameters and a NumPy reference, the golden model of the others."""
