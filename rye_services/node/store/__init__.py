"""Stores of users: objects on the disk or in a bucket, heads, pushes, and who shares them."""
