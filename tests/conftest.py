"""For all tests."""

from hypothesis import settings

# How long an example takes says something of the machine and what else it does, and nothing of the code.
settings.register_profile("without deadlines", deadline=None)
settings.load_profile("without deadlines")
