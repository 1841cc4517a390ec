"""Ratios against floors measured in the same run; see README.md."""
