"""Networks over images: data sets, training, and logits of clean and shifted images as a suite."""

from wildcal.vision.neighbors import knn_distances

__all__ = ["knn_distances"]
