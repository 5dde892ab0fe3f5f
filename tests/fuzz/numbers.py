"""Numbers at the ends of types, and what no index may be."""

INTEGERS = [-(2**63), -(2**31), -2, -1, 0, 1, 2, 255, 2**31 - 1, 2**31, 3 * 10**8, 2**63 - 1, 2**64]
FLOATS = [float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, 0.5, -0.0]
