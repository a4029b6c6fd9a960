"""The program and the shared library, and memory for them."""
