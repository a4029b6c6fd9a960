"""A plugin of pytest: tests run under khop.sparse.patch(), and each says how many products khop's kernels made.

KHOP_JUDGES_PATCH  "patch" or "reassociate"
"""
import os

import pytest

import khop.sparse

khop.sparse.patch(reassociate=os.environ["KHOP_JUDGES_PATCH"] == "reassociate")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    before = khop.sparse.operations()
    yield
    item.user_properties.append(("products", khop.sparse.operations() - before))
