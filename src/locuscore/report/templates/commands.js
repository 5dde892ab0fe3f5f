// The chosen point as a command line and as Python.
const LOSSES = ["absolute", "squared", "zero_one", "log", "brier"];
const shellWord = (text) =>
  /^[\w@%+=:,./-]+$/.test(text) && !text.startsWith("-") ? text : `'${text.replaceAll("'", "'\\''")}'`;
const pythonNumber = (x) =>
  Number.isFinite(x) ? String(x) : `float("${x < 0 ? "-inf" : "inf"}")`;

function lossOption(name) {
  const pinball = /^pinball\(([\d.e-]+)\)$/.exec(name);
  if (pinball) return `pinball:${pinball[1]}`;
  return LOSSES.includes(name) ? name : "module:object";
}

/** What the score of the rule is called as an option, by its first words. */
const scoreKind = (score) =>
  score.startsWith("tail") ? "tail" : score.startsWith("exceedance") ? "exceedance" : "bound";

/** Whether a point is what the archive's own rule does; printed numbers have six digits. */
function isOwnRule(data, state) {
  const t = data.explorer.threshold;
  if (!t) return false;
  if (state.mode === "threshold") return state.threshold === t.start;
  const same = (a, b) => Math.abs(a - b) <= 1e-5 * Math.abs(b);
  const printed = Number(t.score.split("=").pop().replaceAll(",", ""));
  const tau = tauOf(data.explorer, state);
  const alpha = data.explorer.alphas[state.alpha];
  const own = t.thresholds[t.start];
  return { bound: same(printed, alpha) && own === tau,
    exceedance: same(printed, tau) && own === alpha, tail: false }[scoreKind(t.score)];
}

/** A share that fresh rows may well certify: the upper end seen here, two digits, rounded up. */
function plausibleShare(f) {
  const power = 10 ** (Math.floor(Math.log10(f.high)) - 1);
  return Number(Math.min(0.99, Math.ceil(f.high / power - 1e-9) * power).toPrecision(3));
}

/** One command over several lines. */
const lines = (...parts) => parts.join(" \\\n  ");
const newName = (archive) => `${archive.replace(/\.locus$/, "")}-chosen.locus`;

function commandLine(data, state) {
  const e = data.explorer;
  const archive = e.archive || "guard.locus";
  const output = shellWord(newName(archive));
  const tau = tauOf(e, state);
  if (isOwnRule(data, state)) {
    return { note: "This is the archive's own rule.",
      text: lines(`locuscore score ${shellWord(archive)} rows.parquet`,
        "--output scored.parquet") };
  }
  if (state.mode === "alpha") {
    return { note: "Fits again with this tau and alpha, on the rows the archive was fitted on. " +
        "Put in your own file and columns; Python, beside, needs no new fit.",
      text: lines("locuscore fit calibration.parquet", "--target TARGET --prediction PREDICTION",
        `--loss ${lossOption(e.loss)} --rule tau --tau ${tau} --alpha ${e.alphas[state.alpha]}`,
        `--output ${output}`) };
  }
  const f = figuresAt(data, state);
  const c = e.threshold.certified;
  const eta = c ? c.eta : plausibleShare(f);
  return { note: "A threshold is not set by hand on the command line: fresh labelled rows certify " +
      `the largest that keeps the share of bad rows at ${level(eta)}. ` +
      "Put in your own file and column.",
    text: lines(`locuscore certify ${shellWord(archive)} fresh.parquet`, "--target TARGET",
      `--tau ${tau} --eta ${eta} --delta ${c ? c.delta : 0.1} ` +
      `--score ${scoreKind(e.threshold.score)}`, `--output ${output}`) };
}

function pythonCode(data, state) {
  const e = data.explorer;
  const archive = e.archive || "guard.locus";
  const tau = pythonNumber(tauOf(e, state));
  const load = `scorer = Scorer.load(${JSON.stringify(archive)})`;
  const save = "chosen = Scorer(scorer.locus, rule, scorer.alphas)\n" +
    `chosen.save(${JSON.stringify(newName(archive))})`;
  if (isOwnRule(data, state)) {
    return ["from locuscore import Scorer", "", load, "print(scorer.card)",
      "table = scorer(X_new)  # prediction, bounds, score and flag"].join("\n");
  }
  if (state.mode === "alpha") {
    return ["from locuscore import Scorer", "", load,
      `rule = scorer.locus.tau_rule(tau=${tau}, alpha=${pythonNumber(e.alphas[state.alpha])})`,
      save].join("\n");
  }
  const f = figuresAt(data, state);
  const threshold = pythonNumber(thresholdValue(e.threshold, state.threshold));
  const seen = `None: of ${f.accepted} accepted test rows, ${f.bad} had a loss above ${f.tau}.`;
  const words = standing(data, state).certified
    ? ['    "certificate",', "    scorer.rule.guarantee,  # holds at every threshold that passed",
      "    scorer.rule.assumptions,"]
    : ['    "heuristic",', `    ${JSON.stringify(seen)},`];
  return ["from locuscore import FlagRule, Scorer", "", load, "rule = FlagRule(",
    "    scorer.rule.score,", `    ${threshold},`, ...words, ")", save].join("\n");
}

function commandBoxes(data, state) {
  const box = (id, title) => {
    const code = make("code", { id: `${id}-text` });
    const note = make("p", { class: "help" });
    const done = make("span", { class: "done", role: "status" });
    const copy = make("button", { type: "button", id: `${id}-copy`, on: { click: async () => {
      done.textContent = (await copyText(code.textContent, code)) ? "Copied" : "Select and copy";
      setTimeout(() => { done.textContent = ""; }, 2500);
    } } }, `Copy as ${title}`);
    const about = { tabindex: 0, role: "group", "aria-label": `The point as ${title}` };
    const text = make("pre", about, code);
    return { code, note, element: make("div", { class: "command" },
      make("div", { class: "row" }, copy, done), text, note) };
  };
  const shell = box("shell", "command line");
  const python = box("python", "Python");
  const show = () => {
    const { text, note } = commandLine(data, state);
    shell.code.textContent = text;
    shell.note.textContent = note;
    python.code.textContent = pythonCode(data, state);
    python.note.textContent =
      "An archive without its predictor is loaded with Scorer.load(path, predictor).";
  };
  return { element: make("div", { class: "commands" }, shell.element, python.element), show };
}
