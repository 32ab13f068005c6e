"""How topics are learned: what a sweep over the documents does. The loop around the sweeps is in training.py."""
