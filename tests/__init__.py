"""The tests, in one folder for each room of the source.

A room that is a single file with a single test file has no folder: ``tests/test_filters.py``, ``tests/test_losses.py``.
``tests/docs`` holds the tests of the pages, ``tests/cases`` the helpers that the tests of several rooms use, and
``tests/reference.py`` the brute-force twins. All of it is one package, so that a helper has one name wherever it is
imported from (``from tests.cases.cli import call``), and so that a function of a test can be found by its name in
another process.
"""
