import numpy as np
from scipy.stats import binomtest

from locuscore._shared.sampling import column_sample


def test_a_sample_is_uniform_and_bounded():
    hits = np.zeros(40)
    for seed in range(400):
        sample = column_sample(10, seed)
        for part in np.split(np.arange(40.0), [3, 4, 30]):
            sample.add((part, np.column_stack([part, part + 1])), len(part))
        first, both = sample.rows()
        assert first.shape == (10,)
        assert (np.diff(first) > 0).all()
        assert np.array_equal(both, np.column_stack([first, first + 1]))
        assert sample.n_seen == 40
        hits[first.astype(int)] += 1
        assert len(sample.rows(4)[0]) == 4
    # 40 places, each a binomial(400, 1/4).
    assert all(binomtest(int(k), 400, 0.25).pvalue > 1e-6 for k in hits)


def test_no_cutting_of_the_stream_changes_a_sample():
    found = []
    for cuts in ([], [1, 2, 30], [20]):
        sample = column_sample(7, 3)
        for part in np.split(np.arange(60.0), cuts):
            sample.add((part,), len(part))
        found.append(sample.rows()[0].tolist())
    assert found[0] == found[1] == found[2]
