"""Datasets as they are made, described and brought."""
