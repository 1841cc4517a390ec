"""``lillux-proc`` and ``lillux-watch`` in Python: the same contract as the compiled programs.

The contract is ``lillux_native/PROTOCOL.md``; one suite of tests runs on both forms.
"""
