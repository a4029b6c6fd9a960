"""A plugin of pytest: RelBench's tests without what only its downloads need, the package datasets."""
import sys
import types

stand_in = types.ModuleType("datasets")
stand_in.load_dataset = None
sys.modules.setdefault("datasets", stand_in)
