// Numbers as people read them, and the one interval that is computed in the page.
const LOCALE = "en-US";
const NO_NUMBER = "\u2013";
const INFINITE = "\u221e";
const PERCENT = "\u00a0%";

const formats = new Map();

/** A number in decimals; formats are kept, for making one is slow. */
function decimal(x, least, most) {
  const key = 100 * least + most;
  if (!formats.has(key)) {
    formats.set(key, new Intl.NumberFormat(LOCALE,
      { minimumFractionDigits: least, maximumFractionDigits: most }));
  }
  return formats.get(key).format(x).replace("-", "\u2212");
}

const isNumber = (x) => typeof x === "number" && Number.isFinite(x);

/** A number with separators and `digits` significant digits; whole numbers keep all of theirs. */
function number(x, digits = 4) {
  if (!isNumber(x)) return NO_NUMBER;
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) {
    return x.toExponential(Math.max(0, digits - 1)).replace("-", "\u2212").replace("e+", "e");
  }
  const decimals = size === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  const shown = Number.isInteger(x) ? 0 : Math.min(decimals, 12);
  return decimal(x, 0, shown);
}

/** How a column of numbers is shown: the same decimals for all, four digits for the middle one. */
function columnFormat(values) {
  const known = values.filter((x) => isNumber(x) && x !== 0).map(Math.abs).sort((a, b) => a - b);
  if (known.every(Number.isInteger)) return (x) => number(x);
  const middle = known[Math.floor(known.length / 2)];
  const written = Math.max(...known.map((x) => (String(x).split(".")[1] ?? "").length));
  const decimals = Math.min(9, written, Math.max(0, 3 - Math.floor(Math.log10(middle))));
  const isLost = (x) => x !== 0 && Math.abs(x) < 10 ** -decimals;
  return (x) => (isLost(x) || Math.abs(x) >= 1e15 ? number(x, 2)
    : decimal(x, decimals, decimals));
}

const count = (x) => number(Math.round(x));
const bound = (x, digits = 4) => (x === null ? INFINITE : number(x, digits));

/** A share in percent; what is not all or nothing is never shown as 0 % or 100 %. */
function percent(share) {
  if (!isNumber(share)) return NO_NUMBER;
  const x = 100 * share;
  if (x === 0 || x === 100) return `${x}${PERCENT}`;
  const near = Math.min(x, 100 - x);
  const decimals = near >= 10 ? 1 : near >= 0.095 ? 2 : 4;
  const text = x.toFixed(decimals);
  return `${Number(text) === 100 ? "> 99.9999" : Number(text) === 0 ? "< 0.0001" : text}${PERCENT}`;
}

/** A p-value; those below 1e-15 arrive as that number. */
function pValue(x) {
  if (!isNumber(x)) return NO_NUMBER;
  return x <= 1e-15 ? "< 1e\u221215" : number(x, 2);
}

/** A level such as 0.95 or 0.1 as it was written. */
const level = (share) => `${number(100 * share, 6)}${PERCENT}`;

/** A factor with its sign of multiplication. */
function factor(x) {
  if (!isNumber(x)) return NO_NUMBER;
  const isNearOne = x > 0.8 && x < 1.25;
  return `\u00d7${isNearOne ? x.toFixed(2) : number(x, x >= 9.95 ? 3 : 2)}`;
}

const inUnits = (text, unit) => (unit ? `${text} ${unit}` : text);

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
