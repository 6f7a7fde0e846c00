"""Masked answers by file: questions, one-time keys, answers whose masks cancel, and their sum."""
