"""How batches come: from a server over shared memory, on a device, or from khop within the process."""
