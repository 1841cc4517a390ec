# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Counts the lines of files.

It is an example of a script that uv and pipx run.
"""

import argparse
import json
from pathlib import Path

parser = argparse.ArgumentParser(description="Counts the lines of files.")
parser.add_argument("path", help="the file to read")
parser.add_argument("more", nargs="*", help="further files")
parser.add_argument("--least", type=int, default=0, metavar="N", help="leave out shorter files")
parser.add_argument("--order", choices=["name", "lines"], default="name", help="what to sort by")
parser.add_argument("--blank", action="store_true", help="count blank lines too")

if __name__ == "__main__":
    given = parser.parse_args()
    counts = {}
    for name in (given.path, *given.more):
        lines = Path(name).read_text("utf-8").splitlines()
        counts[name] = len([line for line in lines if given.blank or line.strip()])
    kept = [(name, count) for name, count in counts.items() if count >= given.least]
    kept.sort(key=lambda row: row[0] if given.order == "name" else row[1])
    print(json.dumps(dict(kept)))
