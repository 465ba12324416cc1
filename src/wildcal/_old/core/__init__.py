"""The engine: input checks, cache-sized kernels, solvers and the calibrator contract."""
