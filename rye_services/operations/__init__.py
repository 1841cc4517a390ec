"""The command line of operators: backups, fsck, moves of data."""
