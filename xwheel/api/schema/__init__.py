"""What clients of the management API send (messages) and get (views).

``fields`` has the limits of each field. ``messages`` and ``views`` are made of them and of the records of the domain
by ``derived``: a field of a job is said in its record, its table and ``JobCreate``, and nowhere else. ``access`` has
both directions for tokens and executor secrets, ``health`` the state of a node.
"""
