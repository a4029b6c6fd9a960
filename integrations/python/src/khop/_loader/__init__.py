"""Loaders, what starts behind them, and requests."""
