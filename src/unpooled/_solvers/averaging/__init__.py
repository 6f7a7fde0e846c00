"""The first shape of the library: blocks fit functions, the answer is their average."""
