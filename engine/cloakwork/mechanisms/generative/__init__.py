"""Generative models of event logs. What trains a network imports torch, and is imported itself only
when it trains.
"""
