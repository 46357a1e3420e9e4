"""A scheduler process put together.

``pipeline`` builds the stages, ``loops`` runs them, ``node`` adds the listeners and secrets.
"""
