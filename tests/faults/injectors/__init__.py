"""Faults on purpose: each begins and ends when a test says so, and leaves nothing behind.

``proxy`` stands between any two that talk over TCP: it delays, cuts, resets, goes silent, and loses answers.
"""
