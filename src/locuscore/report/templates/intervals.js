// The one interval that is computed in the page.

/** log Gamma by Stirling's series, shifted up to where it is exact to rounding. */
function logGamma(x) {
  let shift = 0;
  while (x < 15) {
    shift -= Math.log(x);
    x += 1;
  }
  const y = 1 / (x * x);
  const series = (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))) / x;
  return shift + (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series;
}

/** The continued fraction of the incomplete beta function, by Lentz's method. */
function betaFraction(x, a, b) {
  const tiny = 1e-300;
  const guard = (v) => (Math.abs(v) < tiny ? tiny : v);
  let c = 1;
  let d = 1 / guard(1 - ((a + b) * x) / (a + 1));
  let result = d;
  for (let m = 1; m < 20000; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / guard(1 + even * d);
    c = guard(1 + even / c);
    result *= d * c;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guard(1 + odd * d);
    c = guard(1 + odd / c);
    result *= d * c;
    if (Math.abs(d * c - 1) < 1e-15) break;
  }
  return result;
}

/** Regularised incomplete beta function I_x(a, b). */
function betaCdf(x, a, b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const logs = a * Math.log(x) + b * Math.log1p(-x);
  const front = Math.exp(logs + logGamma(a + b) - logGamma(a) - logGamma(b));
  if (x < (a + 1) / (a + b + 2)) return (front * betaFraction(x, a, b)) / a;
  return 1 - (front * betaFraction(1 - x, b, a)) / b;
}

function betaQuantile(p, a, b) {
  let low = 0;
  let high = 1;
  for (let step = 0; step < 70 && high - low > 1e-15 * high; step += 1) {
    const middle = (low + high) / 2;
    if (betaCdf(middle, a, b) < p) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** Exact (Clopper-Pearson) interval of a share, k of n. */
function exactInterval(k, n, confidence) {
  if (n === 0) return [0, 1];
  const side = (1 - confidence) / 2;
  return [
    k === 0 ? 0 : betaQuantile(side, k, n - k + 1),
    k === n ? 1 : betaQuantile(1 - side, k + 1, n - k),
  ];
}

/** The middle range of a binomial count: P(X < low) and P(X > high) are at most (1 - level) / 2. */
function binomialRange(n, p, confidence) {
  const side = (1 - confidence) / 2;
  const atMost = (k) => (k < 0 ? 0 : k >= n ? 1 : 1 - betaCdf(p, k + 1, n - k));
  const first = (holds) => {
    let low = 0;
    let high = n;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (holds(middle)) high = middle;
      else low = middle + 1;
    }
    return low;
  };
  return [first((k) => atMost(k) > side), first((k) => atMost(k) >= 1 - side)];
}
