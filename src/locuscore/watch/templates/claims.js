// A claim: what was promised, what was seen, and the evidence against it.
const isMean = (claim) => claim.kind === "mean loss";
const hasPromise = (claim) => isNumber(claim.promised); // exchangeability promises no number
const unitsOf = (claim) => claim.units || "rows";
const isAnytime = (claim) => isNumber(claim.low) && isNumber(claim.high);

/** A value of a claim: a share, or a loss with its unit. */
const valueText = (claim, unit) => (x) =>
  (isMean(claim) ? amount(x, unit) : percent(x));
const promiseText = (claim, unit) =>
  (isMean(claim) ? amount(claim.promised, unit, AS_TYPED) : level(claim.promised));

/** An interval; losses with as many decimals at either end, and their unit once. */
function between(claim, unit) {
  if (!isAnytime(claim)) return claim.n_labelled ? "no interval" : "no interval yet";
  if (!isMean(claim)) return `${percent(claim.low)} to ${percent(claim.high)}`;
  const show = columnFormat([claim.low, claim.high]);
  return inUnits(`${show(claim.low)} to ${show(claim.high)}`, unit);
}

const RAISED = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";
const raised = (n) =>
  (n < 0 ? "\u207b" : "") + Array.from(String(Math.abs(n)), (digit) => RAISED[digit]).join("");

/** An e-value from its natural logarithm, which may be beyond any float. */
function eText(log) {
  if (!isNumber(log)) return NO_NUMBER;
  const tens = log / Math.LN10;
  if (Math.abs(tens) < 4) return number(Math.exp(log), 3);
  const power = Math.floor(tens);
  return `${(10 ** (tens - power)).toFixed(1)}\u00a0\u00d7\u00a010${raised(power)}`;
}

const powerText = (log) => {
  const power = Math.round(log / Math.LN10);
  return power >= -2 && power <= 3 ? number(10 ** power) : `10${raised(power)}`;
};

/** Natural logarithms of powers of ten as ticks. */
function logScale(low, high, from, to) {
  const ticks = (n) => {
    const [first, last] = [Math.ceil(low / Math.LN10), Math.floor(high / Math.LN10)];
    const step = Math.max(1, Math.ceil((last - first) / n));
    const found = [];
    for (let p = Math.ceil(first / step) * step; p <= last; p += step) found.push(p * Math.LN10);
    return found;
  };
  return Object.assign(linearScale(low, high, from, to), { ticks });
}

const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

/** How far up the values are drawn: the band of the first days would flatten all the rest. */
function valueRange(claim) {
  const { estimate, low, high, alone } = claim.line_of;
  const last = high.findLast(isNumber) ?? 0;
  const single = alone.filter(isNumber).sort((a, b) => a - b);
  const seen = [...estimate.filter(isNumber), ...single.slice(0, Math.ceil(0.95 * single.length))];
  const most = Math.max(1.6 * (claim.promised ?? 0), 1.15 * Math.max(0, ...seen), 1.1 * last);
  const least = Math.min(0, ...seen, claim.promised ?? 0, low.findLast(isNumber) ?? 0);
  return [least, (isMean(claim) ? most : Math.min(1, most)) || 1];
}

/** Events on the axes of a claim: of all alarms its own only. */
const eventsOf = (claim, data) => [...data.events.filter((event) => !isAlarm(event)),
  ...(claim.alarmed_at === null ? [] : [{ kind: "alarm", detail: "", at: claim.alarmed_at }])];

function valueChart(claim, data) {
  const { at, n, estimate, low, high, alone, per } = claim.line_of;
  const known = at.map((_, i) => i).filter((i) => isNumber(estimate[i]));
  if (!known.length) return null;
  const [least, most] = valueRange(claim);
  const show = valueText(claim, data.unit);
  const axis = isMean(claim) ? (t) => number(t, 3) : percent1;
  const paint = (width, height) => {
    const box = timeFrame(width, height, niceTicks(least, most, 5).map(axis));
    const x = timeScale(data.span, box.left, box.right);
    const y = linearScale(least, most, box.bottom, box.top);
    const place = (values, i) => [x(at[i] + NOON), y(clamp(values[i], least, most))];
    const banded = known.filter((i) => isNumber(low[i]) && isNumber(high[i]));
    const around = [...banded.map((i) => place(high, i)),
      ...banded.map((i) => place(low, i)).reverse()];
    const line = known.map((i) => place(estimate, i));
    const isSingle = known.length === 1;
    const whisker = ([px]) => draw("line", { class: "whisker", x1: px, x2: px,
      y1: around[0][1], y2: around[1][1] });
    const promised = hasPromise(claim) ? y(claim.promised) : null;
    return [
      ...axes(box, x, y, { x: "", y: isMean(claim) ? inUnits("mean loss", data.unit && `(${data.unit})`)
        : "share of rows" }, { x: x.text, y: axis }),
      isSingle || !around.length ? null : draw("path", { class: "area blue", d: `${path(around)}Z` }),
      promised === null ? null
        : draw("line", { class: "target", x1: box.left, x2: box.right, y1: promised, y2: promised }),
      ...eventMarks(eventsOf(claim, data), x, box),
      ...known.filter((i) => !isSingle && isNumber(alone[i])).map((i) =>
        mark("circle", ...place(alone, i), 2, { class: "alone" })),
      isSingle ? null : draw("path", { class: "line blue", d: path(line) }),
      isSingle && around.length ? whisker(line[0]) : null,
      isSingle ? mark("circle", ...line[0], 5, { class: "dot" }) : null,
      ...strips(known.map((i) => at[i]), x, box, (k) => {
        const i = known[k];
        const interval = between({ ...claim, low: low[i], high: high[i] }, data.unit);
        return `${dayText(at[i])}: ${show(estimate[i])} (${interval}), ` +
          `${count(n[i] ?? 0)} ${unitsOf(claim)}${isNumber(alone[i]) ? `; alone ${show(alone[i])}` : ""}`;
      }),
    ].filter(Boolean);
  };
  const words = `Seen over time: at last ${show(claim.estimate)}, anytime interval ` +
    `${between(claim, data.unit)}; promised is at most ${promiseText(claim, data.unit)}.`;
  const key = legend([
    { name: "seen so far", line: "line blue" }, { name: "anytime band", block: "area blue" },
    ...(known.length > 1 && alone.some(isNumber) ? [{ style: "alone", shape: "circle",
      name: per === 1 ? "each day alone" : `each ${count(per)} days alone` }] : []),
    { name: "promised at most", line: "target" },
  ]);
  return chart("What was seen", words, 210, paint, null, key, "h4").element;
}

/** Moments whose marks would not cover each other. */
const apart = (moments, x) =>
  [...new Map(moments.map((at) => [Math.round(x(at) / 6), at])).values()];

function evidenceChart(claim, data) {
  const { at, log_e: logs } = claim.line_of;
  const known = at.map((_, i) => i).filter((i) => isNumber(logs[i]));
  if (!known.length || !isNumber(claim.line)) return null;
  const calls = claim.detector?.calls ?? [];
  const highest = Math.max(...known.map((i) => logs[i]));
  const floor = Math.max(Math.min(0, ...known.map((i) => logs[i])), -claim.line) - 0.3;
  const top = Math.max(1.25 * claim.line, Math.min(1.05 * highest, 3 * claim.line));
  const isCut = known.some((i) => logs[i] > top || logs[i] < floor);
  const paint = (width, height) => {
    const texts = logScale(floor, top, 0, 1).ticks(4).map(powerText);
    const box = timeFrame(width, height, texts);
    const x = timeScale(data.span, box.left, box.right);
    const y = logScale(floor, top, box.bottom, box.top);
    const place = (i) => [x(at[i] + NOON), y(clamp(logs[i], floor, top))];
    const alarm = y(claim.line);
    const line = known.map(place);
    const flat = Object.assign((t) => y(t), { ticks: () => y.ticks(4) });
    return [
      ...axes(box, x, flat, { x: "", y: "e-value, log scale" }, { x: x.text, y: powerText }),
      draw("line", { class: "alarm-line", x1: box.left, x2: box.right, y1: alarm, y2: alarm }),
      ...eventMarks(eventsOf(claim, data), x, box),
      known.length === 1 ? mark("circle", ...line[0], 5, { class: "dot evidence" })
        : draw("path", { class: "line evidence", d: path(line) }),
      ...strips(known.map((i) => at[i]), x, box, (k) => `${dayText(at[known[k]])}: e-value ` +
        `${eText(logs[known[k]])}; alarm at ${eText(claim.line)}`),
      ...apart(calls, x).map((call) => mark("circle", x(call), box.top + 6, 3.5, { class: "call",
        tip: `detector's call, not an alarm (${timeText(call)})` })),
    ].filter(Boolean);
  };
  const words = `Evidence against the promise: the e-value is now ${eText(claim.log_e)} and was ` +
    `at most ${eText(claim.largest)}; the alarm is at ${eText(claim.line)}. ` +
    (calls.length ? `The detector called ${times(calls.length)}. ` : "") +
    (isCut ? "Values beyond the edge are drawn at it." : "");
  const key = legend([
    { name: "e-value", line: "line evidence" },
    { name: `alarm at ${eText(claim.line)}`, line: "alarm-line" },
    ...(calls.length ? [{ name: "detector's call, not an alarm", style: "call", shape: "circle" }] : []),
  ]);
  return chart("Evidence against it", words, 180, paint, null, key, "h4").element;
}

/** What is known about a claim, in one word. */
function claimState(claim, data) {
  if (!claim.tested) return ["plain", "not tested"];
  if (claim.alarmed_at !== null) return ["bad", "ALARM"];
  if (!claim.n) return ["plain", "no rows yet"];
  if (!claim.n_labelled) return ["plain", "no labels yet"];
  if (claim.detector?.calls.length) return ["warn", "detector called"];
  return [data.verdict.level === "unknown" ? "plain" : "good", "no alarm"];
}

const claimBadge = (claim, data) => {
  const [kind, text] = claimState(claim, data);
  return make("strong", { class: `badge ${kind}` }, text);
};

const tile = (what, value, note) => make("div", { class: "tile" }, make("p", { class: "what" }, what),
  make("output", {}, value), make("p", { class: "note" }, note));

function claimTiles(claim, data) {
  const show = valueText(claim, data.unit);
  const before = isNumber(claim.log_e) && claim.largest > claim.log_e + 0.01
    ? `, largest so far ${eText(claim.largest)}` : "";
  return make("div", { class: "tiles" },
    hasPromise(claim) ? [
      tile("Seen", show(claim.estimate),
        (isAnytime(claim) ? "anytime interval " : "") + between(claim, data.unit)),
      tile("Promised", `\u2264\u00a0${promiseText(claim, data.unit)}`,
        claim.among === "accepted" ? "of the accepted rows" : "of all rows")] : null,
    tile("E-value", eText(claim.log_e), `alarm at ${eText(claim.line)}${before}`));
}

/** Which rows were used, and whether the detector called. */
function usedRows(claim) {
  const missing = claim.n_missing ? `, ${count(claim.n_missing)} without` : "";
  const calls = claim.detector?.calls ?? [];
  const called = calls.length ? ` The detector called ${times(calls.length)}, last on ` +
    `${dayText(calls.at(-1))}; a call is not an alarm.` : "";
  return `${count(claim.n)} ${unitsOf(claim)} used: ${count(claim.n_labelled)} with a label${missing}.${called}`;
}

const times = (n) => (n === 1 ? "once" : n === 2 ? "twice" : `${count(n)} times`);

function emptyClaim(claim, data) {
  if (!data.counts.decisions) return "No decisions yet.";
  if (!claim.n) {
    return `No row is old enough yet: each is used when it is ${ageText(data.settings.age_days)} old.`;
  }
  return "No labels yet.";
}

const ageText = (days) => (days === 1 ? "1\u00a0day" : isNumber(days) ? `${number(days)}\u00a0days`
  : "of the age that was set");

function claimTable(claim, data) {
  const { at, n, estimate, low, high, log_e: logs } = claim.line_of;
  const show = valueText(claim, data.unit);
  return asTable(claim.name, ["day", unitsOf(claim), "seen", "anytime interval", "e-value"],
    at.map((t, i) => [dayText(t), count(n[i] ?? 0), show(estimate[i]),
      isNumber(low[i]) && isNumber(high[i])
        ? between({ ...claim, low: low[i], high: high[i] }, data.unit) : NO_NUMBER,
      eText(logs[i])]));
}

/** All about one claim. */
function claimCard(claim, data) {
  const charts = claim.n ? [valueChart(claim, data), evidenceChart(claim, data)] : [];
  const since = claim.alarmed_at === null ? null
    : make("p", { class: "since" }, `Alarm since ${timeText(claim.alarmed_at)}.`);
  return make("article", { class: "claim" },
    make("div", { class: "row claim-head" }, make("h3", {}, claim.name), claimBadge(claim, data)),
    make("p", { class: "claim-sentence" }, tied(claim.sentence)), since, claimTiles(claim, data),
    ...charts,
    isNumber(claim.estimate) || (charts[1] && !hasPromise(claim)) ? null
      : make("p", { class: "empty" }, emptyClaim(claim, data)),
    claim.n ? make("p", { class: "help" }, usedRows(claim)) : null,
    claim.line_of.at.length ? claimTable(claim, data) : null);
}

/** A claim that is drawn when it is opened. */
function foldedClaim(claim, data) {
  const show = valueText(claim, data.unit);
  const seen = isNumber(claim.estimate)
    ? ` \u2013 ${show(claim.estimate)}, promised at most ${promiseText(claim, data.unit)}` : "";
  const folded = make("details", { class: "folded" },
    make("summary", {}, `${claim.name}${seen}`));
  const open = () => {
    if (folded.open && folded.children.length === 1) folded.append(claimCard(claim, data));
  };
  folded.addEventListener("toggle", open);
  return folded;
}
