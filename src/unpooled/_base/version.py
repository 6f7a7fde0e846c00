"""The version of the library, below everything that writes it into a file."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("unpooled")
except PackageNotFoundError:  # run from a source tree that was not installed
    __version__ = "0+unknown"
