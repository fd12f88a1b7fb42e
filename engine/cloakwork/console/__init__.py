"""The console: what the command line does, as pages that are served to this machine alone.

It keeps nothing of its own: what it shows is read off the ledger and the folder that it was started
with, and work in progress is forgotten when it ends.
"""
