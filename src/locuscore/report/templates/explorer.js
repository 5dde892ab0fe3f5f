// The operating point: two sliders, exact counts from the grid, and what they mean.

/** The tolerance that is meant: the one that was typed, or that of the grid. */
const tauOf = (e, state) => state.typed ?? e.taus[state.tau];

/** Everything the page says about one point, from the counts alone. */
function figuresAt(data, state) {
  const e = data.explorer;
  const isAlpha = state.mode === "alpha";
  const accepted = isAlpha
    ? e.accepted[state.tau][state.alpha]
    : e.threshold.accepted[state.threshold];
  const bad = isAlpha ? e.bad[state.tau][state.alpha] : e.threshold.bad[state.tau][state.threshold];
  const n = data.n_rows;
  const [low, high] = exactInterval(bad, accepted, e.interval_level);
  return {
    tau: e.taus[state.tau],
    accepted,
    bad,
    acceptance: accepted / n,
    exceedance: accepted ? bad / accepted : null,
    low,
    high,
    badPerAccepted: accepted ? (1000 * bad) / accepted : null,
    badPerRows: (1000 * bad) / n,
    flagged: n - accepted,
    workload: (n - accepted) / n,
    allBad: e.losses_above[state.tau] / n,
  };
}

/** Only the certified score, at a threshold that passed, for tau at or above the certified one. */
function isCertified(e, state) {
  const c = state.mode === "threshold" ? e.threshold.certified : null;
  return Boolean(c && c.passed[state.threshold] && tauOf(e, state) >= c.tau);
}

/** Whether the test rows contradict what is certified at this threshold. */
const isContradicted = (e, state) =>
  isCertified(e, state) && e.threshold.certified.contradicted[state.threshold];

/** Whether the point is certified, and one sentence why. */
function standing(data, state) {
  const e = data.explorer;
  const tau = tauOf(e, state);
  const money = (x) => amount(x, data.unit, AS_TYPED);
  const flattering = data.verdict.rows_of_fit?.outcome === "used"
    ? ", which were used to fit and look better than new rows will" : "";
  const measured = `measured on ${count(data.n_rows)} test rows${flattering}`;
  if (state.mode === "alpha") {
    const alpha = e.alphas[state.alpha];
    return {
      certified: false,
      why: `These shares are ${measured}. What is proven for a tau and alpha fixed in advance: ` +
        `at most ${level(alpha)} of all rows are accepted and have a loss above ${money(tau)} ` +
        "(Theorem 3); it says nothing about the share among the accepted.",
    };
  }
  const c = e.threshold.certified;
  const no = (reason) => ({ certified: false, why: `${reason} The figures are ${measured}.` });
  if (!c && data.guarantee.standing === "certificate") {
    return no("The certificate of this archive is not about the share of bad rows among all that " +
      "are accepted; see what is guaranteed.");
  }
  if (!c) return no("The rule of this archive has no certificate.");
  if (thresholdValue(e.threshold, state.threshold) === -Infinity) return no("This accepts nothing.");
  if (!isCertified(e, state)) {
    return no(c.passed[state.threshold]
      ? `The certificate is for tau of at least ${money(c.tau)}.`
      : "This threshold is not among those that were tested and passed.");
  }
  const contradicted = isContradicted(e, state);
  const but = contradicted ? " The test rows contradict the certificate: they are probably " +
    "unlike the certifying ones." : "";
  const further = tau > c.tau ? `, and so above ${money(tau)}` : "";
  return {
    certified: true,
    contradicted,
    why: `This threshold was tested and passed: with confidence ${level(1 - c.delta)}, at most ` +
      `${level(c.eta)} of the accepted rows have a loss above ${money(c.tau)}${further}. ` +
      `The figures are ${measured}.${but}`,
  };
}

/** Thresholds of -inf and +inf arrive as null, first and last. */
const thresholdValue = (t, i) =>
  t.thresholds[i] ?? (i === 0 && t.accepted[0] === 0 ? -Infinity : Infinity);
const thresholdText = (x) =>
  Number.isFinite(x) ? number(x, 5) : x < 0 ? `\u2212${INFINITE}` : INFINITE;

/** A labelled slider over a grid; a typed number stays, and a sentence says where rows are counted. */
function gridSlider({ id, label, help, values, text, index, changed, off = null }) {
  const last = values.length - 1;
  const range = make("input", { type: "range", id, min: 0, max: last, step: 1, value: index,
    "aria-describedby": `${id}-help` });
  const field = make("input", { type: "number", id: `${id}-number`, step: "any",
    "aria-label": `${label}, as a number` });
  const note = make("p", { class: "help typed", id: `${id}-note`, role: "status" });
  const show = (i) => {
    range.value = i;
    range.setAttribute("aria-valuetext", text(values[i]));
    range.style.setProperty("--share", `${last ? (100 * i) / last : 0}%`);
    field.value = Number.isFinite(values[i]) ? String(Number(values[i].toPrecision(AS_TYPED))) : "";
    field.placeholder = text(values[i]);
    note.textContent = "";
  };
  const nearest = (x) =>
    values.reduce((best, v, i) => (Math.abs(v - x) < Math.abs(values[best] - x) ? i : best), 0);
  const choose = (i, typed = null) => {
    show(i);
    changed(i, typed);
  };
  range.addEventListener("input", () => choose(Number(range.value)));
  field.addEventListener("change", () => {
    const words = field.value;
    const typed = words === "" ? NaN : Number(words);
    if (!Number.isFinite(typed)) return choose(Number(range.value));
    const i = nearest(typed);
    if (off === null || typed === values[i]) return choose(i);
    choose(i, typed);
    field.value = words;
    note.textContent = off(typed, values[i]);
  });
  show(index);
  return make(
    "div",
    { class: "slider", id: `${id}-box` },
    make("label", { for: id }, label),
    range,
    field,
    make("p", { class: "help", id: `${id}-help` }, help),
    note,
  );
}

function modeChoice(chosen, changed) {
  const option = (value, words) =>
    make("label", {}, make("input", { type: "radio", name: "mode", value, checked: value === chosen,
      on: { change: () => changed(value) } }), make("span", {}, words));
  return make(
    "fieldset",
    { class: "modes" },
    make("legend", {}, "Accept a row if"),
    option("alpha", "its bound is at most tau"),
    option("threshold", "the rule's score is at most a threshold"),
  );
}

/** The tiles with the live figures; `set` writes the text and, for readers of the page, the value. */
function figureTiles(data) {
  const value = {};
  const note = {};
  const tile = (key, name) => {
    value[key] = make("output", { id: `figure-${key}`, for: "tau alpha threshold" });
    note[key] = make("p", { class: "note" });
    return make("div", { class: "tile" }, make("p", { class: "what" }, name), value[key], note[key]);
  };
  const element = make(
    "div",
    { class: "tiles" },
    tile("acceptance", "Accepted"),
    tile("exceedance", "Bad among the accepted"),
    tile("bad", "Bad per 1,000 accepted"),
    tile("workload", "To review"),
  );
  const set = (key, text, words, exact) => {
    value[key].textContent = text;
    note[key].textContent = words;
    for (const [name, x] of Object.entries(exact)) value[key].dataset[name] = String(x);
  };
  const show = (f) => {
    const sure = level(data.explorer.interval_level);
    set("acceptance", percent(f.acceptance),
      `${count(f.accepted)} of ${count(data.n_rows)} rows`,
      { value: f.acceptance, accepted: f.accepted });
    set("exceedance", percent(f.exceedance),
      f.accepted ? `${sure} interval ${percent(f.low)} to ${percent(f.high)}`
        : "nothing is accepted, so there is nothing to measure",
      { value: f.exceedance, low: f.low, high: f.high, bad: f.bad });
    set("bad", f.accepted ? number(f.badPerAccepted, 3) : NO_NUMBER,
      `${number(f.badPerRows, 3)} per 1,000 rows; ` +
      `accepting all rows: ${number(1000 * f.allBad, 3)}`,
      { value: f.badPerAccepted, rows: f.badPerRows });
    set("workload", `${count(f.flagged)} ${f.flagged === 1 ? "row" : "rows"}`,
      `${percent(f.workload)} flagged, ${number(1000 * f.workload, 3)} per 1,000`,
      { value: f.workload, flagged: f.flagged });
  };
  return { element, show };
}

/** Certified points in a row that have this standing; others between them do not part them. */
function stretches(points, standing) {
  const found = [];
  points.filter((p) => p.standing).forEach((p, i, proven) => {
    if (p.standing !== standing) return;
    if (i && proven[i - 1].standing === standing) found[found.length - 1].push(p);
    else found.push([p]);
  });
  return found;
}

/** Exceedance against acceptance along the slider that is in use, with the chosen point. */
function pointChart(data, state) {
  const e = data.explorer;
  const along = () => {
    const size = state.mode === "alpha" ? e.alphas.length : e.threshold.thresholds.length;
    const key = state.mode === "alpha" ? "alpha" : "threshold";
    return Array.from({ length: size }, (_, i) => {
      const at = { ...state, [key]: i };
      const accepted = key === "alpha" ? e.accepted[at.tau][i] : e.threshold.accepted[i];
      const bad = key === "alpha" ? e.bad[at.tau][i] : e.threshold.bad[at.tau][i];
      return { accepted, x: accepted / data.n_rows, y: bad / accepted,
        standing: isContradicted(e, at) ? "contradicted" : isCertified(e, at) ? "certified" : "" };
    }).filter((p) => p.accepted > 0);
  };
  const paint = (width, height) => {
    const points = along();
    const f = figuresAt(data, state);
    const steady = points.filter((p) => p.accepted >= Math.max(20, 0.02 * data.n_rows));
    const c = state.mode === "threshold" ? e.threshold.certified : null;
    const most = Math.max(f.allBad, f.exceedance ?? 0, c ? c.eta : 0,
      ...steady.map((p) => p.y)) * 1.1 || 0.01;
    const yTexts = niceTicks(0, most, 5).map(percent1);
    const box = frame(width, height, yTexts);
    const x = linearScale(0, 1, box.left, box.right - 8);
    const y = linearScale(0, most, box.bottom, box.top);
    const place = (p) => [x(p.x), y(Math.min(p.y, most))];
    const names = { x: "share of rows accepted", y: "bad among the accepted" };
    const parts = axes(box, x, y, names, { x: percent1, y: percent1 });
    if (c) {
      const at = { class: "target", x1: box.left, x2: box.right, y1: y(c.eta), y2: y(c.eta) };
      parts.push(draw("line", at),
        draw("text", { class: "tick", x: box.left + 6, y: y(c.eta) - 5 },
          `eta = ${level(c.eta)}`));
    }
    for (const name of ["certified", "contradicted"]) {
      parts.push(...stretches(points, name).map((part) =>
        draw("path", { class: `${name}-line`, d: path([...part, part[part.length - 1]].map(place)) })));
    }
    parts.push(draw("path", { class: "line blue", d: path(points.map(place)) }));
    if (f.accepted) {
      const [px, py] = place({ x: f.acceptance, y: f.exceedance });
      const top = y(Math.min(f.high, most));
      parts.push(draw("line", { class: "whisker", x1: px, x2: px, y1: y(f.low), y2: top }),
        mark("circle", px, py, 7, { class: "chosen",
          tip: `${percent(f.acceptance)} accepted, ${percent(f.exceedance)} of them bad` }));
    }
    return parts;
  };
  const description = () => {
    const f = figuresAt(data, state);
    return `Share of bad rows among the accepted against the share accepted, at tau ` +
      `${number(f.tau, 6)}. The chosen point accepts ${percent(f.acceptance)} with ` +
      `${percent(f.exceedance)} bad.`;
  };
  const c = e.threshold?.certified;
  const key = legend([
    { name: "all settings of the second slider", line: "line blue" },
    { name: "chosen, with interval", style: "chosen", shape: "circle", line: null },
    ...(c && c.passed.some((is, i) => is && !c.contradicted[i])
      ? [{ name: "certified", line: "certified-line" }] : []),
    ...(c && c.contradicted.some(Boolean)
      ? [{ name: "certified, but contradicted", line: "contradicted-line" }] : []),
  ]);
  const made = chart("Trade-off at this tau", description, 280, paint, null, key);
  const render = () => {
    [...key.children].slice(2).forEach((item) =>
      item.toggleAttribute("hidden", state.mode === "alpha"));
    made.render();
  };
  return { element: made.element, render };
}

function explorer(data) {
  const e = data.explorer;
  const t = e.threshold;
  // A certificate is about the rule's own score, so it is shown first.
  const state = { mode: t?.certified ? "threshold" : "alpha",
    typed: null, tau: e.start.tau_index, alpha: e.start.alpha_index,
    threshold: t ? t.start : 0 };
  const tiles = figureTiles(data);
  const badge = make("strong", { class: "badge", id: "badge" });
  const why = make("span", { id: "why" });
  const spoken = make("p", { class: "unseen", role: "status" });
  const trade = pointChart(data, state);
  const commands = commandBoxes(data, state);
  let timer = 0;
  const update = () => {
    const f = figuresAt(data, state);
    const s = standing(data, state);
    tiles.show(f);
    const name = s.contradicted ? "contradicted" : s.certified ? "certified" : "estimate";
    badge.textContent = name;
    badge.className = `badge ${s.contradicted ? "bad" : s.certified ? "good" : "plain"}`;
    why.textContent = s.why;
    trade.render();
    commands.show();
    clearTimeout(timer);
    timer = setTimeout(() => {
      spoken.textContent = `${name[0].toUpperCase()}${name.slice(1)}: ` +
        `${percent(f.acceptance)} accepted, ${percent(f.exceedance)} of them bad.`;
    }, 500);
  };
  const slide = (key) => (i) => {
    state[key] = i;
    update();
  };
  const sliders = {
    tau: gridSlider({ id: "tau", label: data.unit ? `Tolerance tau (${data.unit})` : "Tolerance tau",
      help: "A loss above tau is bad.", values: e.taus, index: state.tau,
      off: (typed, x) => `You typed ${amount(typed, data.unit, AS_TYPED)}. This page has counts at ` +
        `${count(e.taus.length)} tolerances, and the figures are those of the nearest, ` +
        `${amount(x, data.unit, AS_TYPED)}. For exact ones make the report with tau=${typed}, or ` +
        `--tau ${typed}.`,
      text: (x) => amount(x, data.unit, AS_TYPED), changed: (i, typed) => {
        state.typed = typed;
        slide("tau")(i);
      } }),
    alpha: gridSlider({ id: "alpha", label: "Share alpha",
      help: "Of all losses, at most this share exceeds its bound. Smaller accepts fewer rows.",
      values: e.alphas, index: state.alpha, text: (x) => level(x), changed: slide("alpha"),
      off: (typed, x) => `Figures are those of the nearest share on this page, ${level(x)}.` }),
    threshold: t && gridSlider({ id: "threshold", label: "Threshold",
      help: `Of the score: ${t.score}. Smaller accepts fewer rows.`,
      values: t.thresholds.map((_, i) => thresholdValue(t, i)), index: state.threshold,
      text: thresholdText, changed: slide("threshold"),
      off: (typed, x) => `Figures are those of the nearest threshold here, ${thresholdText(x)}.` }),
  };
  const setMode = (mode) => {
    state.mode = mode;
    sliders.alpha.hidden = mode !== "alpha";
    if (t) sliders.threshold.hidden = mode !== "threshold";
    update();
  };
  const controls = make("div", { class: "controls" }, t ? modeChoice(state.mode, setMode) : null,
    sliders.tau, sliders.alpha, sliders.threshold || null);
  const verdict = make("p", { class: "verdict" }, badge, why);
  setMode(state.mode);
  return section("explorer", "Choose an operating point",
    "Move the sliders: every figure below is an exact count over the test rows.",
    make("div", { class: "split" }, make("div", {}, controls, verdict), trade.element),
    tiles.element, spoken, commands.element);
}
