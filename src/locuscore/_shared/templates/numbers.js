// Numbers as people read them.
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

// Units whose sign stands before the number, as in _shared/readable.py.
const SIGNS = new Map([["$", ["$", "dollar", "dollars", "us dollars", "usd"]],
  ["\u20ac", ["\u20ac", "euro", "euros", "eur"]], ["\u00a3", ["\u00a3", "gbp", "pounds sterling"]]]
  .flatMap(([sign, names]) => names.map((name) => [name, sign])));
const LARGE = [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"]];
const AS_TYPED = 8; // digits of a number that somebody chose
const signOf = (unit) => SIGNS.get((unit ?? "").trim().toLowerCase());

/** A number with its unit, as people write it: $150,000, $12.50, 3.2 kWh. */
function amount(x, unit, digits = 4) {
  if (!isNumber(x)) return NO_NUMBER;
  const sign = signOf(unit);
  const size = Math.abs(x);
  const plain = number(size, digits);
  const minus = x < 0 ? "\u2212" : "";
  if (!sign) return minus + inUnits(plain, unit);
  return minus + sign + (plain.includes(".") && size >= 0.01 ? decimal(size, 2, 2) : plain);
}

/** The same, but millions and more in words: $28.4 million. */
function largeAmount(x, unit) {
  const size = Math.abs(x);
  const found = isNumber(x) && size < 1e15 && LARGE.find(([least]) => size >= 0.9999995 * least);
  if (!found) return amount(x, unit);
  const text = `${number(size / found[0])} ${found[1]}`;
  const minus = x < 0 ? "\u2212" : "";
  return minus + (signOf(unit) ? signOf(unit) + text : inUnits(text, unit));
}

/** A day such as 2026-05-05 as people write it: 5 May 2026. */
function dayText(iso) {
  const day = new Date(`${iso}T00:00:00Z`);
  if (Number.isNaN(day.getTime())) return iso;
  const month = day.toLocaleDateString("en-GB", { month: "long", timeZone: "UTC" });
  return `${day.getUTCDate()} ${month} ${day.getUTCFullYear()}`;
}
