"""Routes of plugins: what they are given (:mod:`~xwheel.api.plugins.site`), and how a call passes to one and back.

The gate checks the caller; :mod:`~xwheel.api.plugins.routes` hands the call to the plugin, a bounded number at a time,
and makes its answer, or what it raises, the response; :mod:`~xwheel.api.plugins.files` sends files and ranges of them.
:mod:`~xwheel.api.plugins.work` is what they do between calls.
"""
