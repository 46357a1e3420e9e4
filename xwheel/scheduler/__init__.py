"""The pipeline, one module per stage; no stage imports another, ``xwheel.server`` wires them."""
