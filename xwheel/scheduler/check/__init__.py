"""Runs that stay open.

``questions`` asks executors, ``decide`` says what it comes to (pure), ``loop`` does both and sends kills.
"""
