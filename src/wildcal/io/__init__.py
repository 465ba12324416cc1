"""Read and write samples, calibrators and suites."""
