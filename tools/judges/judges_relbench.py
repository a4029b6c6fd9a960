"""A plugin of pytest: RelBench's tests without what only its downloads need, the package datasets."""
import importlib.util
import sys
import types

if importlib.util.find_spec("datasets") is None:
    stand_in, exceptions = types.ModuleType("datasets"), types.ModuleType("datasets.exceptions")
    stand_in.load_dataset, stand_in.exceptions, exceptions.DatasetNotFoundError = None, exceptions, Exception
    sys.modules.update({"datasets": stand_in, "datasets.exceptions": exceptions})
