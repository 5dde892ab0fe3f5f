// The page, from top to bottom.
const NAMES = { claims: "Promises", untested: "Not tested", labels: "Labels", drift: "Drift",
  groups: "Groups", events: "Events", deployment: "Deployment" };
const KINDS = new Map([["ok", "good"], ["unknown", "plain"], ["notice", "warn"], ["alarm", "bad"]]);

/** The verdict, and what to do now. */
function banner(data) {
  const { verdict, action } = data;
  const exit = verdict.level === "alarm" ? " Exit code 4." : "";
  const rows = isNumber(action.rows) ? ` ${count(action.rows)} rows.` : "";
  return make("div", { class: "said" },
    make("p", {}, tied(verdict.heading), exit),
    make("p", { class: "next", id: "action" }, make("strong", {}, "What next: "), tied(action.sentence),
      action.sentence.includes(count(action.rows)) ? "" : rows));
}

/** All claims side by side, where they are too many to compare card by card. */
function claimsTable(list, data) {
  const row = (c) => {
    const show = valueText(c, data.unit);
    return [c.name, isNumber(c.promised) ? `\u2264 ${promiseText(c, data.unit)}` : NO_NUMBER,
      show(c.estimate), between(c, data.unit), count(c.n ?? 0), eText(c.log_e), eText(c.line),
      claimState(c, data)[1]];
  };
  const table = plainTable("All promises", ["promise", "promised", "seen", "anytime interval", "rows", "e-value",
    "alarm at", "state"], list.map(row));
  return make("details", { class: "numbers" }, make("summary", {}, "All promises as a table"), table);
}

function glance(list) {
  const rows = list.filter((c) => !isMean(c) && isNumber(c.estimate) && isAnytime(c)).map((c) => ({
    label: c.name, value: c.estimate, low: c.low, high: c.high, target: c.promised,
    misses: c.alarmed_at !== null }));
  if (!rows.length) return null;
  const { height, paint } = dotRows(rows, { xName: "share of rows", tip: (r) => `${r.label}: ` +
    `${percent(r.value)} (${percent(r.low)} to ${percent(r.high)}), promised at most ${percent(r.target)}` });
  const key = legend([{ name: "seen, with its anytime interval", style: "dot", shape: "circle", line: "whisker" },
    { name: "alarm", style: "dot miss", shape: "diamond", line: "whisker miss" },
    { name: "promised at most", line: "target" }]);
  const n = rows.filter((r) => r.misses).length;
  return chart("All at a glance", `${count(rows.length)} promises, ${count(n)} with an alarm.`, height,
    paint, null, key).element;
}

/** What the pictures of the promises mean, said once for all of them. */
function howToRead(tested, nFirst) {
  const rows = tested.map((c) => c.detector?.run_length).filter(isNumber);
  const points = [
    "The e-value weighs the evidence against a promise. It may be looked at at any time, and as often " +
      "as one likes.",
    "The anytime band is valid on all days at once, so it is wider than an interval for a single day.",
    "A row without a label counts as good for the alarm and as bad for the upper end of the interval.",
    rows.length ? "The detector looks for recent changes and starts anew after each call. If nothing " +
      `changes it calls once in ${count(Math.min(...rows))} rows or less often. A call is not an alarm.` : "",
    nFirst ? `The ${count(nFirst)} promises nearest to an alarm have their pictures open.` : "",
  ].filter(Boolean);
  return make("details", {}, make("summary", {}, "How to read the pictures"),
    make("ul", { class: "sentences" }, points.map((text) => make("li", {}, text))));
}

function claims(data) {
  const tested = data.claims.filter((c) => c.tested);
  if (!tested.length) {
    return section("claims", "Promises", null, make("p", { class: "empty" }, "No promise is tested."));
  }
  const open = tested.filter((c) => c.is_open);
  const folded = tested.filter((c) => !c.is_open && c.line_of);
  const isMany = tested.length > open.length;
  const key = eventLegend(data.events);
  const { delta } = data.settings;
  const lead = isNumber(delta) ? "While every promise is kept, the chance that any of them ever raises " +
    `an alarm is at most ${level(delta)}, however often one looks.` : null;
  return section("claims", "Promises", lead, howToRead(tested, isMany ? open.length : 0),
    isMany ? glance(tested) : null,
    key ? make("div", { class: "key" }, make("p", { class: "help" }, "On the time axes:"), key) : null,
    make("div", { class: "pair cards" }, open.map((c) => claimCard(c, data))),
    folded.length ? make("div", { class: "more" }, folded.map((c) => foldedClaim(c, data))) : null,
    claimsTable(tested, data));
}

function untested(data) {
  const list = data.claims.filter((c) => !c.tested);
  if (!list.length) return null;
  return section("untested", "Promises that are not tested", null, make("ul", { class: "sentences" },
    list.map((c) => make("li", {}, make("strong", {}, `${c.name}. `), tied(c.sentence), " ",
      make("span", { class: "reason" }, `Not tested: ${c.why_not}`)))));
}

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const about = [isNumber(data.since) ? `Deployed since ${dayText(data.since)}` : "Not deployed yet",
    data.deployment ? `scorer ${data.deployment.slice(0, 12)}` : "", `as of ${timeText(data.made_at)}`];
  pageHead(data.title, about.filter(Boolean), KINDS.get(data.verdict.level) ?? "plain", banner(data));
  pageBody([claims(data), untested(data), labels(data), drift(data), groups(data), events(data),
    deployment(data)].filter(Boolean), NAMES);
}

start();
