"""The tests, in one folder for each room of the source.

A room that is a single file with a single test file has no folder: ``tests/test_filters.py``, ``tests/test_losses.py``.
``tests/docs`` holds the tests of the pages. ``tests/reference.py`` holds the brute-force twins, ``tests/made_up.py``
all made-up data, and ``tests/cases`` the helpers that the tests of several rooms use.

All of it is one package, so that a helper has one name wherever it is imported from (``from tests.cases.cli import
call``), and so that another process finds a function of a test by its name.
"""
