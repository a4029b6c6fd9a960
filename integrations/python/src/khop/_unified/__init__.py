"""Tensors whose rows lie in the host's memory, or in a file, and are read where they are used."""
