"""Foundations that every other room builds on: arrays, checks, files, memory, threads, text, and contracts.

Nothing here imports from another room, and every other room may import from here.
"""
