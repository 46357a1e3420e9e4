"""What ``xwheel plugins new`` writes: a complete, tested project for each kind of plugin."""
