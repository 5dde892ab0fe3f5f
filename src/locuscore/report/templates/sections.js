// The sections below the explorer, each from its part of the data; null where there is nothing.
const STANDINGS = {
  theorem: ["Theorem", "holds for a rule fixed in advance, in finite samples"],
  certificate: ["Certificate", "proven from data, in finite samples"],
  heuristic: ["Heuristic", "tuned on data, nothing is guaranteed for the rule"],
  nothing: ["Accepts nothing", "no threshold was found; the bounds keep their guarantee"],
  none: ["Bounds only", "there is no flag rule in this archive"],
};

/** Each claim in the words of its test, and the figures. */
function tests(data) {
  const list = data.verdict.claims;
  if (!list.length) return null;
  const isMean = (c) => c.kind === "mean loss";
  const promised = (c) => (isMean(c) ? amount(c.promised, data.unit, AS_TYPED) : level(c.promised));
  const seen = (c) => (isMean(c) ? amount(c.observed, data.unit) : percent(c.observed));
  const table = asTable("Claims and exact tests", ["claim", "at most", "seen", "rows", "p-value",
    "verdict"], list.map((c) => [c.claim, promised(c), seen(c), count(c.n), pValue(c.p_value),
    c.verdict]));
  return section("tests", "The exact test of each claim",
    `Each claim has an exact test, and together they are judged by Bonferroni-Holm: if all hold, ` +
    `the chance that any is called contradicted is at most ${level(data.verdict.error)}. Rows are ` +
    "too few to tell if even twice the promised value would not have been noticed.",
    make("ul", { class: "sentences" }, list.map((c) => make("li", {}, claimBadge(c), tied(c.sentence)))),
    table);
}

/** What the rule of the archive claims, if it claims anything; by group, several claims. */
const ruleClaims = (data) => data.verdict.claims.filter((c) => c.kind !== "coverage");

function guarantee(data) {
  const g = data.guarantee;
  const t = data.explorer?.threshold;
  const isBroken = ruleClaims(data).some((c) => c.verdict === CONTRADICTED);
  const standing = t && thresholdValue(t, t.start) === -Infinity ? "nothing" : g.standing;
  const [title, about] = STANDINGS[standing] ?? [standing, ""];
  const isProven = standing === "certificate" || standing === "theorem";
  const [name, words] = isBroken && isProven
    ? [`${title}, contradicted`, "the test rows contradict it: see the verdict"] : [title, about];
  const kind = !isProven ? "plain" : isBroken ? "bad" : "good";
  return section("guarantee", "What is guaranteed", null,
    make("p", { class: "verdict" }, make("strong", { class: `badge ${kind}` }, name), words),
    make("ul", { class: "sentences" }, g.sentences.map((text) => make("li", {}, text))),
    make("details", {}, make("summary", {}, "The guarantee card as text"),
      make("pre", { class: "card-text", tabindex: 0, role: "group",
        "aria-label": "Guarantee card" }, g.card)));
}

/** A rule with a threshold for each group: what each accepted, and how much of it was bad. */
function ruleGroups(data) {
  const r = data.rule_groups;
  if (!r) return null;
  const share = (g) => (g.accepted ? percent(g.bad / g.accepted) : "\u2013");
  const rows = r.rows.map((g) => [g.pooled > 1 ? `${g.group} (pool)` : g.group,
    g.accepts_nothing ? "nothing certified" : g.threshold === null ? "every finite score" : number(g.threshold, 6), count(g.n), count(g.accepted),
    count(g.bad), share(g), g.promised === null ? "\u2013" : level(g.promised),
    g.verdict ?? "accepts nothing"]);
  const more = r.n_groups_not_shown
    ? ` ${count(r.n_groups_not_shown)} smaller groups (${count(r.rows_not_shown)} rows) are not shown.` : "";
  const other = r.rows_of_other_groups
    ? ` ${count(r.rows_of_other_groups)} rows are of no group with a rule and are flagged.` : "";
  return section("rule-groups", "The rule, group by group",
    `A row is accepted if its ${r.score} is at most the threshold of its group. Each group's share of ` +
    `bad rows among the accepted has its own exact test in the verdict.${more}${other}`,
    plainTable(`Rule by ${r.by}`, [r.by, "threshold", "rows", "accepted", "bad", "share bad", "at most",
      "verdict"], rows));
}

/** Too little is a breach where the claim is contradicted; more than expected never is. */
function coverageBadge(c, data) {
  const claim = data.verdict.claims.find((part) => part.alpha === c.alpha);
  const low = claim?.verdict === CONTRADICTED ? ["bad", "too low"] : ["warn", "low"];
  const [kind, text] = claim?.verdict === NOT_JUDGED ? ["plain", NOT_JUDGED]
    : isTrivial(c) ? ["plain", "no test"] : c.agrees ? ["good", "agrees"]
    : c.rate < c.low ? low : ["warn", "higher"];
  return make("strong", { class: `badge ${kind}` }, text);
}

function coverage(data) {
  if (!data.coverage.length) return null;
  const rows = data.coverage.map((c) => ({ ...c, label: `alpha = ${number(c.alpha, 6)}`,
    value: c.rate, target: 1 - c.alpha, misses: !c.agrees }));
  const sure = level(data.coverage[0].level);
  const { height, paint } = dotRows(rows, {
    xName: "share of losses within their bound", wide: true,
    tip: (r) => `${r.label}: ${percent(r.rate)} of ${count(r.n)} rows; ` +
      `a valid bound shows ${percent(r.low)} to ${percent(r.high)}`,
  });
  const table = asTable("Held-out coverage", ["alpha", "wanted", "covered", "share",
    `${sure} range of a valid bound`, "p-value", "agrees"], rows.map((r) => [number(r.alpha, 6),
    level(1 - r.alpha), `${count(r.covered)} of ${count(r.n)}`, percent(r.rate),
    `${percent(r.low)} to ${percent(r.high)}`, pValue(r.p_value), r.agrees ? "yes" : "no"]));
  const key = legend([
    { name: `where a valid bound falls in ${sure} of cases`, block: "range-block" },
    { name: "wanted", line: "target" },
    { name: "seen, inside", style: "dot", shape: "circle" },
    { name: "seen, outside", style: "dot miss", shape: "diamond" },
  ]);
  const words = rows.map((r) => r.sentence).join(" ");
  return section("coverage", "Does the coverage agree?", null,
    make("ul", { class: "sentences" }, rows.map((r) =>
      make("li", {}, coverageBadge(r, data), tied(r.sentence)))),
    chart("Coverage on the test rows", words, height, paint, table, key).element);
}

/** Where points fall on few places, such as 0 and 1: each place with its number of rows. */
function places(points) {
  const found = new Map();
  for (const [u, z] of points) {
    const key = `${u} ${z}`;
    const place = found.get(key) ?? { u, z, n: 0 };
    found.set(key, { ...place, n: place.n + 1 });
  }
  return found.size <= 30 && points.length > 3 * found.size ? [...found.values()] : null;
}

function placeMarks(list, x, y) {
  const most = Math.max(...list.map((p) => p.n));
  return list.flatMap((p) => {
    const radius = 4 + 16 * Math.sqrt(p.n / most);
    const shape = p.z > p.u ? "triangle" : "circle";
    return [
      mark(shape, x(p.u), y(p.z), radius, { class: p.z > p.u ? "point miss" : "point",
        tip: `loss ${number(p.z)}, bound ${number(p.u)}: ${count(p.n)} rows` }),
      draw("text", { class: "label", x: x(p.u) + 1.2 * radius + 4, y: y(p.z) + 4 }, count(p.n)),
    ];
  });
}

/** Each bound beside the loss that came: above the diagonal the bound was exceeded. */
function boundAndLoss(data) {
  const b = data.bound_vs_loss;
  const points = b?.points ?? [];
  if (!points.length) return null;
  const values = points.flat().filter(isNumber);
  const high = Math.max(...values, ...(b.axis_max ?? []).filter(isNumber)) || 1;
  const low = Math.min(0, ...values);
  const few = places(points.filter(([u]) => u !== null));
  const pad = 0.15 * (high - low);
  const maker = few
    ? { isSkewed: false, on: (from, to) => Object.assign(
      linearScale(low - pad, high + pad, from, to), { ticks: (n) => niceTicks(low, high, n) }) }
    : scaleMaker(values, low, high);
  const tall = (width) => Math.min(460, Math.max(300, 0.7 * width));
  const over = points.filter(([u, z]) => u !== null && z > u).length;
  const paint = (width, height) => {
    const texts = maker.on(0, 1).ticks(5).map((t) => number(t, 3));
    const box = frame(width, height, texts);
    const x = maker.on(box.left, box.right);
    const y = maker.on(box.bottom, box.top);
    const names = { x: inUnits("bound", data.unit && `(${data.unit})`),
      y: inUnits("realised loss", data.unit && `(${data.unit})`) };
    const short = (t) => number(t, 3);
    const ends = { x1: x(x.low), y1: y(x.low), x2: x(x.high), y2: y(x.high) };
    const dot = ([u, z]) => mark(z > u ? "triangle" : "circle", x(u), y(z), z > u ? 3.4 : 2.4, {
      class: z > u ? "point miss" : "point",
      tip: `loss ${number(z)}, bound ${number(u)}${data.unit ? ` (${data.unit})` : ""}` });
    const finite = points.filter(([u]) => u !== null);
    const ground = [...axes(box, x, y, names, { x: short, y: short }),
      draw("line", { class: "target", ...ends })];
    if (few) return [...ground, ...placeMarks(few, x, y)];
    return [...ground, ...finite.filter(([u, z]) => z <= u).map(dot),
      ...finite.filter(([u, z]) => z > u).map(dot)];
  };
  const shown = points.length + b.n_infinite < data.n_rows
    ? `A random sample of ${count(points.length)} of ${count(data.n_rows)} rows. ` : "";
  const infinite = b.n_infinite ? `${count(b.n_infinite)} rows have no finite bound. ` : "";
  const bent = maker.isSkewed ? "Axes are logarithmic away from zero. " : "";
  const key = legend([
    { name: "loss within its bound", style: "point solid", shape: "circle" },
    { name: "loss above its bound", style: "point miss solid", shape: "triangle" },
    { name: "loss = bound", line: "target" },
  ]);
  const words = `${shown}${infinite}${bent}${count(over)} of the points ` +
    `(${percent(over / points.length)}) lie above the line; about ${level(b.alpha)} are expected.`;
  return section("losses", "Bound against realised loss",
    `Bounds at alpha = ${number(b.alpha, 6)}. ${words}`,
    chart(few ? "Rows at each place" : "One mark per row", words, tall, paint, null, key).element);
}

function coverageRows(title, rows, target, head, cells) {
  const { height, paint } = dotRows(rows, { target, targetName: `wanted ${level(target)}`,
    xName: "share of losses within their bound",
    tip: (r) => `${r.label}: ${count(r.covered)} of ${count(r.n)} rows, ${percent(r.rate)} ` +
      `(${percent(r.low)} to ${percent(r.high)})` });
  const table = asTable(title, [head, "rows", "within bound", "share", cells.interval, ...cells.head],
    rows.map((r) => [r.label, count(r.n), count(r.covered), percent(r.rate),
      `${percent(r.low)} to ${percent(r.high)}`, ...cells.of(r)]));
  const far = rows.filter((r) => r.misses).length;
  const words = `Coverage with intervals. ${count(far)} of ${count(rows.length)} intervals leave ` +
    `out the wanted ${level(target)}.`;
  const key = legend([
    { name: "interval includes the wanted share", style: "dot", shape: "circle", line: "whisker" },
    { name: "leaves it out", style: "dot miss", shape: "diamond", line: "whisker miss" },
  ]);
  return chart(title, words, height, paint, table, key).element;
}

/** Coverage by tenth of the bound, and by the first groups. */
function deciles(data) {
  const target = 1 - (data.bounds?.alpha ?? data.coverage[0]?.alpha ?? 0.1);
  const asRow = (r, label) => ({ ...r, label, value: r.rate, low: r.ci_low, high: r.ci_high,
    misses: r.ci_low > target || r.ci_high < target });
  const between = (d, i) => `${i + 1}: ${bound(d.low, 3)} to ${bound(d.high, 3)}`;
  const tenths = (data.deciles ?? []).filter((d) => d.n > 0).map((d, i) => asRow(d, between(d, i)));
  const groups = (data.groups?.rows ?? []).filter((g) => g.n > 0).map((g) => asRow(g, String(g.group)));
  if (!tenths.length && !groups.length) return null;
  return section("deciles", "Coverage by part",
    "The guarantee is an average over all rows; a part of them may lie above or below it. " +
    (tenths.length ? "By chance alone about one decile's interval in twenty leaves the wanted share out. " : "") +
    (groups.length ? `By ${data.groups.name}: ${data.groups.sentence ?? ""}` : ""),
    make("div", { class: "pair" },
      tenths.length ? coverageRows("By decile of the bound, smallest first", tenths, target,
        "decile: bounds", { interval: "95 % interval", head: ["mean loss"],
          of: (r) => [amount(r.mean_loss, data.unit)] }) : null,
      groups.length ? coverageRows(`Coverage by ${data.groups.name}`, groups, target, String(data.groups.name),
        { interval: "simultaneous 95 % interval", head: ["mean bound"],
          of: (r) => [r.mean_bound === null ? INFINITE : amount(r.mean_bound, data.unit)] }) : null));
}

function pit(data) {
  const counts = data.pit?.counts ?? [];
  const n = counts.reduce((a, b) => a + b, 0);
  if (!n) return null;
  const edges = Array.from({ length: counts.length + 1 }, (_, i) => i / counts.length);
  const [low, high] = binomialRange(n, 1 / counts.length, 0.95);
  const paint = (width, height) => {
    const most = Math.max(...counts, high) * 1.08;
    const box = frame(width, height, niceTicks(0, most, 5).map(count));
    const x = linearScale(0, 1, box.left, box.right);
    const y = linearScale(0, most, box.bottom, box.top);
    const even = n / counts.length;
    const across = { x1: box.left, x2: box.right };
    return [...axes(box, x, y, { x: "predicted probability of a smaller loss",
      y: "rows" }, { x: (t) => number(t, 3), y: count }),
    ...bars(edges, counts, x, y, (i) =>
      `${number(edges[i], 3)} to ${number(edges[i + 1], 3)}: ${count(counts[i])} rows`),
    draw("rect", { class: "band", x: box.left, width: box.right - box.left, y: y(high),
      height: y(low) - y(high) }),
    draw("line", { class: "target", ...across, y1: y(even), y2: y(even) })];
  };
  const table = asTable("PIT histogram", ["from", "to", "rows"],
    counts.map((c, i) => [number(edges[i], 3), number(edges[i + 1], 3), count(c)]));
  const key = legend([{ name: "even", line: "target" },
    { name: "95 % range of a bar if even", block: "band" }]);
  return section("pit", "Is the law of the loss right?", data.pit.sentence,
    chart("PIT histogram", data.pit.sentence, 260, paint, table, key).element);
}

const SERIES = [["blue", "circle"], ["orange", "square"], ["green", "triangle"], ["purple", "diamond"]];

function curve(data) {
  const series = (data.curve?.series ?? []).filter((s) => s.acceptance.length);
  if (!series.length) return null;
  const unit = data.unit;
  const steady = (s) => s.exceedance.filter((_, i) => s.acceptance[i] >= 0.05);
  const most = Math.max(0.001, ...series.flatMap(steady)) * 1.1;
  const at = (s, x) => {
    const i = s.acceptance.findIndex((a) => a >= x - 1e-9);
    return s.exceedance[i < 0 ? s.exceedance.length - 1 : i];
  };
  const paint = (width, height) => {
    const box = frame(width, height, niceTicks(0, most, 5).map(percent1));
    const x = linearScale(0, 1, box.left, box.right - 8);
    const y = linearScale(0, most, box.bottom, box.top);
    const place = (xs, ys) => xs.map((a, i) => [x(a), y(Math.min(most, ys[i] ?? most))]);
    const out = axes(box, x, y, { x: "share of rows accepted", y: "bad among the accepted" },
      { x: percent1, y: percent1 });
    series.forEach((s, i) => {
      const [colour, shape] = SERIES[i % SERIES.length];
      if (s.low && s.high) {
        const around = [...place(s.acceptance, s.high), ...place(s.acceptance, s.low).reverse()];
        out.push(draw("path", { class: `area ${colour}`, d: `${path(around)}Z` }));
      }
      const points = place(s.acceptance, s.exceedance);
      out.push(draw("path", { class: `line ${colour}`, d: path(points) }));
      [0.2, 0.4, 0.6, 0.8, 1].forEach((share) => {
        const found = s.acceptance.findIndex((a) => a >= share - 1e-9);
        if (found >= 0) out.push(mark(shape, ...points[found], 4, { class: `shape ${colour}` }));
      });
    });
    const strips = 50;
    for (let i = 0; i < strips; i += 1) {
      const share = (i + 0.5) / strips;
      out.push(draw("rect", { class: "hit", x: x(i / strips), y: box.top, height: box.bottom - box.top,
        width: x(1 / strips) - x(0), tip: `${percent1(share)} accepted. ` +
          series.map((s) => `${s.name}: ${percent(at(s, share))} bad`).join("; ") }));
    }
    return out;
  };
  const shares = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];
  const table = asTable("Bad among the accepted", ["accepted", ...series.map((s) => s.name)],
    [...shares.map((share) => [percent1(share), ...series.map((s) => percent(at(s, share)))]),
      ["area under the curve", ...series.map((s) => number(s.area, 3))]]);
  const band = series.some((s) => s.low);
  const key = legend([...series.map((s, i) => ({ name: s.name, shape: SERIES[i % 4][1],
    line: `line ${SERIES[i % 4][0]}`, style: `shape ${SERIES[i % 4][0]}` })),
  ...(band ? [{ name: `band of ${series[0].name}, all points at once, ${level(data.curve.band_level)}`,
    block: "area blue" }] : [])]);
  const best = series.slice().sort((a, b) => a.area - b.area)[0];
  const words = `Rows accepted from the safest on, at tau = ${amount(data.curve.tau, unit, AS_TYPED)}; ` +
    `lower is better. Smallest area under the curve: ${best.name} (${number(best.area, 3)}).`;
  return section("curve", "Ranking: who accepts fewer bad rows?", words,
    chart("Exceedance against acceptance", words, 320, paint, table, key).element);
}

function bounds(data) {
  const b = data.bounds;
  if (!b || !b.counts.length) return null;
  const [low, high] = [b.edges[0], b.edges[b.edges.length - 1]];
  const widths = b.counts.map((_, i) => b.edges[i + 1] - b.edges[i]);
  // Bars of equal width on the page: bent where the edges are.
  const unit = b.edges.find((edge) => edge > 0) ?? 1;
  const on = Math.max(...widths) < 3 * Math.min(...widths)
    ? (from, to) => linearScale(low, high, from, to)
    : (from, to) => skewedScale(unit, low, high, from, to);
  const marks = Object.entries(b.quantiles ?? {}).filter(([, v]) => isNumber(v));
  const short = (t) => number(t, 3);
  const paint = (width, height) => {
    const most = Math.max(...b.counts, 1) * 1.12;
    const box = frame(width, height, niceTicks(0, most, 5).map(count));
    const x = on(box.left, box.right);
    const y = linearScale(0, most, box.bottom, box.top);
    const line = ([, v]) => draw("line", { class: "quantile", x1: x(v), x2: x(v), y1: box.top,
      y2: box.bottom });
    return [...axes(box, x, y, { x: inUnits("bound", data.unit && `(${data.unit})`), y: "rows" },
      { x: short, y: count }),
    ...bars(b.edges, b.counts, x, y, (i) =>
      `${short(b.edges[i])} to ${short(b.edges[i + 1])}: ${count(b.counts[i])} rows`),
    ...marks.filter(([, v]) => v >= low && v <= high).map(line)];
  };
  const table = asTable("Distribution of bounds", ["from", "to", "rows"],
    b.counts.map((c, i) => [number(b.edges[i]), number(b.edges[i + 1]), count(c)]));
  const named = marks.map(([q, v]) =>
    `${level(Number(q))} of rows have a bound of at most ${amount(v, data.unit)}`);
  const words = `${named.join("; ")}${named.length ? ". " : ""}` +
    (b.n_above ? `The ${count(b.n_above)} largest are not drawn. ` : "") +
    (b.n_infinite ? `${count(b.n_infinite)} rows have no finite bound.` : "");
  const key = marks.length ? legend([{ name: `quantiles of the bounds: ${marks.map(([q]) =>
    level(Number(q))).join(", ")}`, line: "quantile" }]) : null;
  return section("bounds", `Distribution of the bounds at alpha = ${number(b.alpha, 6)}`, words,
    chart("Rows by bound", words || "Histogram of the bounds.", 260, paint, table, key).element);
}

function rows(data) {
  const r = data.rows;
  if (!r || !(r.riskiest.length || r.safest.length)) return null;
  return section("rows", `Riskiest and safest ${data.noun}`,
    `A factor says what a value does to the ${driven(data)}: \u00d71.8 raises it 1.8 times, ` +
    "\u00d70.6 lowers it.",
    rowsTable(data));
}

const MOST_DRIVERS = 8;

function attribution(data) {
  const a = data.attribution;
  if (!a || !a.importance.length) return null;
  const what = driven(data);
  const shown = a.importance.slice(0, MOST_DRIVERS);
  const most = Math.max(...shown.map((i) => i.mean_abs_log)) || 1;
  const step = 26;
  const times = (i) => factor(Math.exp(i.mean_abs_log));
  const paint = (width) => {
    const left = Math.min(0.42 * width, 14 + Math.max(...shown.map((i) => textWidth(i.name))));
    return shown.flatMap((i, row) => {
      const y = row * step;
      const wide = (i.mean_abs_log / most) * (width - left - 70);
      return [
        draw("text", { class: "label", x: left - 10, y: y + 18, "text-anchor": "end" },
          cut(i.name, left - 12)),
        draw("rect", { class: "bar", x: left, y: y + 5, width: Math.max(1, wide), height: 16 }),
        draw("text", { class: "label", x: left + wide + 8, y: y + 18 }, times(i)),
        draw("rect", { class: "hit", x: 0, y, width, height: step,
          tip: `${i.name}: ${times(i)} or \u00f7${times(i).slice(1)} on average` }),
      ];
    });
  };
  const table = asTable("All drivers", ["signal or feature", "mean change of the logarithm", "as a factor"],
    a.importance.map((i) => [i.name, number(i.mean_abs_log, 3), times(i)]));
  const typical = what === "bound" ? amount(a.baseline, data.unit) : number(a.baseline, 3);
  const words = `What moves the ${what} of one of the ${data.noun} most, up or down, on average. ` +
    `A typical ${what} is ${typical}.`;
  return section("attribution", "What drives risk", words,
    chart("By how much, as a factor", words, shown.length * step + 6, paint, table).element);
}

/** How the drivers were found, for those who ask. */
function method(data) {
  const a = data.attribution;
  if (!a || !a.importance.length) return null;
  return section("method", "How the drivers were found", null, make("p", { class: "help" },
    `${a.method} Cost: ${count(a.n_rows)} rows explained against ${count(a.n_background)} others, ` +
    `${count(a.evaluations)} evaluations, ${number(a.seconds, 2)} s.`));
}

function facts(data) {
  if (!data.facts.length) return null;
  return section("facts", "Data and model", null, make("dl", { class: "facts" },
    data.facts.map((f) => make("div", {}, make("dt", {}, f.name), make("dd", {}, f.value)))));
}
