"""What ``xwheel new`` and ``xwheel plugins new`` write: complete, tested projects."""
