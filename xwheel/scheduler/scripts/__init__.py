"""Sources of script jobs: ``scripts`` saves each as a version of its job, and takes old ones back.

The stages read what is current through :mod:`xwheel.scheduler.sources`.
"""
