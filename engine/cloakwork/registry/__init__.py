"""Versions of policies, kept in the ledger's journal: who wrote them, who approved them, since
when.
"""
