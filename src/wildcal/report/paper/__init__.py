"""The tables, figures and claims of the paper on energy scaling."""
