"""The golden check: two versions of the library write the same files and predict the same numbers."""
