"""Threads: a directive carries itself out."""
