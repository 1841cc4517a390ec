#!/usr/bin/env python3
"""Print the commits since the last tag as JSON."""

import json
import subprocess

log = subprocess.run(
    ["git", "log", "--format=%h %s"], capture_output=True, text=True, check=True
).stdout
print(json.dumps(log.splitlines()))
