// What is shown besides the claims: labels, drift, groups, events, the deployment.
const sum = (rows, key) => rows.reduce((total, row) => total + row[key], 0);

function labelBars(rows, data, width, height) {
  const most = Math.max(1, ...rows.map((r) => r.labelled + r.awaited)) * 1.08;
  const box = timeFrame(width, height, niceTicks(0, most, 4).map(count));
  const x = timeScale(data.span, box.left, box.right);
  const y = linearScale(0, most, box.bottom, box.top);
  const whole = Object.assign((t) => y(t), { ticks: () => y.ticks(4).filter(Number.isInteger) });
  const bar = (r, style, from, to) => {
    const [left, right] = [clamp(x(r.at), box.left, box.right), clamp(x(r.to), box.left, box.right)];
    const gap = right - left > 5 ? clamp(0.1 * (right - left), 1, 12) : 0;
    return to === from ? null : draw("rect", { class: style, x: left + gap / 2, y: y(to),
      width: Math.max(1, right - left - gap), height: y(from) - y(to) });
  };
  const name = data.bars.period === "day" ? dayText : (at) => `${data.bars.period} of ${dayText(at)}`;
  return [
    ...axes(box, x, whole, { x: "", y: `labels by ${data.bars.period} of decision` },
      { x: x.text, y: count }),
    ...rows.flatMap((r) => [bar(r, "bar", 0, r.labelled),
      bar(r, "bar awaited", r.labelled, r.labelled + r.awaited)]).filter(Boolean),
    ...rows.map((r) => draw("rect", { class: "hit", x: x(r.at), width: Math.max(1, x(r.to) - x(r.at)),
      y: box.top, height: box.bottom - box.top - 5, tip: `${name(r.at)}: ${count(r.decisions)} decisions, ` +
        `${count(r.accepted)} accepted, ${count(r.drawn)} drawn; ${count(r.labelled)} labels seen, ` +
        `${count(r.awaited)} awaited` })),
    ...eventMarks(data.events, x, box),
  ];
}

function labelChart(data) {
  const { rows, period } = data.bars;
  if (!rows.length) return make("p", { class: "empty" }, "No decisions yet.");
  const words = `Labels by ${period} of their decision: ${count(sum(rows, "labelled"))} seen, ` +
    `${count(sum(rows, "awaited"))} awaited.`;
  const table = asTable(`Labels by ${period}`, [period, "decisions", "accepted", "drawn", "labels seen",
    "awaited"], rows.map((r) => [dayText(r.at), ...["decisions", "accepted", "drawn", "labelled",
    "awaited"].map((key) => count(r[key]))]));
  const key = legend([{ name: "label seen", block: "bar" }, { name: "label awaited", block: "bar awaited" }]);
  return chart("Labels seen and awaited", words, 220,
    (width, height) => labelBars(rows, data, width, height), table, key).element;
}

function labels(data) {
  const c = data.counts;
  const n = c.decisions ?? 0;
  const share = (k) => (n ? ` (${percent(k / n)})` : "");
  const also = [
    c.late ? `${count(c.late)} rows came too late to be tested.` : "",
    c.complaints ? `${count(c.complaints)} labels are of accepted rows that were not drawn; they ` +
      "are kept and never tested." : "",
    c.waiting_labels ? `${count(c.waiting_labels)} labels wait for their decision.` : "",
  ].filter(Boolean).join(" ");
  return section("labels", "Decisions and labels",
    `A row is used when it is ${ageText(data.settings.age_days)} old, with or without its label.`,
    make("div", { class: "tiles" },
      tile("Decisions", count(n), `${count(c.accepted ?? 0)} accepted${share(c.accepted ?? 0)}, ` +
        `${count(c.flagged ?? 0)} flagged`),
      tile("Drawn for a label", count(c.drawn ?? 0), auditText(data.settings)),
      tile("Labels seen", count(c.labelled ?? 0), c.labelled ? "so far" : "none yet"),
      tile("Labels awaited", count(c.awaited ?? 0), "of rows that were drawn")),
    also ? make("p", { class: "help" }, also) : null,
    labelChart(data));
}

const auditText = ({ audit, audit_flagged: flagged }) =>
  [isNumber(audit) ? `${level(audit)} of the accepted` : "chance of the accepted unknown",
    isNumber(flagged) ? `${level(flagged)} of the flagged` : "chance of the flagged unknown"].join(", ");

/** Rows may look different while every promise is kept: that takes labels to know. */
function drift(data) {
  const d = data.drift;
  if (!d) return null;
  const facts = [
    ["How well new rows can be told from old ones (AUC; 0.5 is not at all)",
      isNumber(d.auc) ? number(d.auc, 3) : null],
    ["p-value", isNumber(d.p_value) ? pValue(d.p_value) : null],
    ["New rows where the loss model had none", isNumber(d.outside) ? percent(d.outside) : null],
    ["e-value of the scores", d.score ? `${eText(d.score.log_e)} (line at ${eText(d.score.line)})` : null],
  ].filter(([, value]) => value !== null);
  const more = d.n_signals_not_shown ? ` ${count(d.n_signals_not_shown)} with smaller shifts are not shown.` : "";
  return section("drift", "Do rows look different?",
    "This compares rows without their labels. That rows look different does not mean that a promise " +
    "is broken: only labels can tell.",
    make("p", { class: "claim-sentence" }, tied(d.sentence)),
    facts.length ? make("dl", { class: "facts" }, facts.map(([name, value]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, value)))) : null,
    d.signals.length ? shiftChart(d.signals, more) : null);
}

function shiftChart(signals, more) {
  const step = 28;
  const most = Math.max(...signals.map((s) => Math.abs(s.shift ?? 0))) || 1;
  const text = (s) => (s.shift > 0 ? "+" : "") + number(s.shift, 2);
  const paint = (width) => {
    const left = Math.min(0.42 * width, 14 + Math.max(...signals.map((s) => textWidth(s.name))));
    return signals.flatMap((s, i) => {
      const wide = (Math.abs(s.shift ?? 0) / most) * (width - left - 70);
      const y = i * step;
      return [
        draw("text", { class: "label", x: left - 10, y: y + 19, "text-anchor": "end" },
          cut(s.name, left - 12)),
        draw("rect", { class: s.shift < 0 ? "bar down" : "bar", x: left, y: y + 6,
          width: Math.max(1, wide), height: 17 }),
        draw("text", { class: "label", x: left + wide + 8, y: y + 19 }, text(s)),
        draw("rect", { class: "hit", x: 0, y, width, height: step, tip: `${s.name}: ${text(s)}` }),
      ];
    });
  };
  const words = `The largest shifts of signals since deployment, up or down.${more}`;
  return chart("Signals that moved", words, signals.length * step + 6, paint,
    asTable("Signals that moved", ["signal", "shift"], signals.map((s) => [s.name, text(s)])),
    make("p", { class: "help" }, words)).element;
}

function groupChart(groups, more) {
  const step = 30;
  const most = Math.max(0.01, ...groups.flatMap((g) => [g.share_first, g.share_now]).filter(isNumber));
  const paint = (width, height) => {
    const left = Math.min(0.42 * width, 14 + Math.max(...groups.map((g) => textWidth(g.group)), 20));
    const box = { left, right: width - 16, top: 8, bottom: height - 26 };
    const x = linearScale(0, most * 1.06, left, box.right);
    const flat = Object.assign(() => 0, { ticks: () => [] });
    return [
      ...axes(box, x, flat, { x: "", y: "" }, { x: percent1, y: String }),
      ...groups.flatMap((g, i) => {
        const y = box.top + (i + 0.5) * step;
        const then = isNumber(g.share_first) ? x(g.share_first) : null;
        const now = isNumber(g.share_now) ? x(g.share_now) : null;
        return [
          draw("text", { class: "label", x: left - 10, y: y + 4, "text-anchor": "end" },
            cut(g.group, left - 12)),
          then === null || now === null ? null
            : draw("line", { class: "moved", x1: then, x2: now, y1: y, y2: y }),
          then === null ? null : mark("circle", then, y, 5, { class: "then" }),
          now === null ? null : mark("circle", now, y, 5, { class: "dot" }),
          draw("rect", { class: "hit", x: 0, y: y - step / 2, width, height: step,
            tip: `${g.group}: ${percent(g.share_first)} at first, ${percent(g.share_now)} now` }),
        ].filter(Boolean);
      }),
    ];
  };
  const far = groups.filter((g) => isNumber(g.share_first) && isNumber(g.share_now))
    .sort((a, b) => Math.abs(b.share_now - b.share_first) - Math.abs(a.share_now - a.share_first))[0];
  const words = (far ? `${far.group} moved most: from ${percent(far.share_first)} to ` +
    `${percent(far.share_now)}.` : "Shares of groups.") + more;
  const table = asTable("Shares of groups", ["group", "rows", "at first", "now"], groups.map((g) =>
    [g.group, count(g.n ?? 0), percent(g.share_first), percent(g.share_now)]));
  const key = legend([{ name: "at first", style: "then", shape: "circle" },
    { name: "now", style: "dot", shape: "circle" }]);
  return { words, element: chart("Share of each group", words, groups.length * step + 36, paint, table, key).element };
}

function groups(data) {
  if (!data.groups.length) return null;
  const more = data.n_groups_not_shown ? ` ${count(data.n_groups_not_shown)} smaller groups are not shown.` : "";
  const { words, element } = groupChart(data.groups, more);
  return section("groups", "Groups then and now", words, element);
}

function events(data) {
  const more = data.n_events_not_shown ? `The last ${count(data.events.length)}; ` +
    `${count(data.n_events_not_shown)} earlier ones are not shown.` : null;
  const list = data.events.slice().reverse();
  return section("events", "Events", more, list.length
    ? plainTable("Events, the latest first", ["time", "what", "detail"], list.map((e) =>
      [timeText(e.at), e.kind, e.detail]), "wraps")
    : make("p", { class: "empty" }, "Nothing has happened yet."));
}

function deployment(data) {
  const s = data.settings;
  const rows = [
    ["Deployed since", timeText(data.since)], ["Scorer", data.deployment], ["Ledger", data.store],
    ["Chance of any false alarm, ever", isNumber(s.delta) ? `at most ${level(s.delta)}` : ""],
    ["Age at which a row is used", ageText(s.age_days)], ["Drawn for a label", auditText(s)],
    ["Valid until", isNumber(s.valid_until) ? dayText(s.valid_until) : ""],
  ].filter(([, value]) => value);
  return section("deployment", "What is deployed", null,
    make("dl", { class: "facts" }, rows.map(([name, value]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, value)))),
    data.deployments.length > 1 ? plainTable("Deployments in this ledger", ["scorer", "since",
      "decisions"], data.deployments.map((d) => [d.digest, timeText(d.since), count(d.n)]), "wraps") : null,
    data.card ? make("details", {}, make("summary", {}, "The guarantee card as text"),
      make("pre", { class: "card-text", tabindex: 0, role: "group", "aria-label": "Guarantee card" },
        data.card)) : null);
}
