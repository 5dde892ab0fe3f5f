"""Whether two shares are the same, by an exact test."""

from scipy.stats import fisher_exact


def equal_shares_p_value(k_1: int, n_1: int, k_2: int, n_2: int) -> float:
    """Fisher's exact test, two-sided, that k_1 of n_1 and k_2 of n_2 rows have the same share."""
    table = [[k_1, n_1 - k_1], [k_2, n_2 - k_2]]
    return min(1.0, float(fisher_exact(table, alternative="two-sided").pvalue))
