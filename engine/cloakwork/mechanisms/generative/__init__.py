"""Mechanisms that train a network, and draw what is released from it. They need the extra
``generative``, whose package torch loads when training begins, and never before.
"""
