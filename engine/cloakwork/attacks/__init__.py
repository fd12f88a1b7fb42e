"""Attacks on a log and on its releases, tried out: what somebody who knows a little can find."""
