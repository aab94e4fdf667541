"""The step-time model of a virtualised network."""
