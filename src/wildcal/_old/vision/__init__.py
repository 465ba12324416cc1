"""Images and networks to logits: data sets, networks, training and extraction of suites."""
