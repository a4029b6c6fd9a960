"""Batches as they are read: arrays, views of types, conversions."""
