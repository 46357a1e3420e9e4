"""The log of a run. ``capture`` brings in what handlers print, ``run_log`` writes and reads files."""
