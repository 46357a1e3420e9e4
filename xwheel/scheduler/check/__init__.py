"""The check of open runs: what to ask (``questions``), what it comes to (``decide``), and the loop (``checker``)."""
