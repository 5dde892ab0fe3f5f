// Two reports side by side.
const NAMES = { shares: "What changed", sides: "Verdicts", money: "Losses", parts: "By group",
  provenance: "Provenance", test: "The test" };

const isWorse = (s) => s.kind !== "acceptance" && s.after.value > s.before.value;

function changeBadge(s) {
  const [kind, text] = s.p_value === null ? ["plain", "no test"]
    : !s.differs ? ["plain", "within chance"]
      : [s.kind === "acceptance" ? "warn" : isWorse(s) ? "bad" : "good",
        s.after.value > s.before.value ? "more" : "fewer"];
  return make("strong", { class: `badge ${kind}` }, text);
}

/** The share in both reports, as two bars; a line marks what is promised. */
function twin(data, s) {
  if (s.kind === "mean loss") return null;
  const top = 1.25 * Math.max(s.before.value, s.after.value, s.promised < 1 ? s.promised : 0) || 1;
  const bar = (side, name, style) => {
    const box = make("div", { class: `meter ${style}` }, make("span", { class: "fill" }),
      isNumber(s.promised) && s.promised < 1 ? make("span", { class: "limit" }) : null);
    box.style.setProperty("--seen", `${(100 * side.value) / top}%`);
    if (isNumber(s.promised)) box.style.setProperty("--limit", `${(100 * s.promised) / top}%`);
    return make("div", {}, make("span", {}, name), box, make("span", { class: "now" }, percent(side.value)));
  };
  const [first, second] = data.reports;
  return make("div", { class: "twin", "aria-hidden": "true" }, bar(s.before, first.name, "before"),
    bar(s.after, second.name, isNumber(s.promised) && s.after.value > s.promised ? "over" : ""));
}

function shares(data) {
  if (!data.shares.length) return null;
  return section("shares", "What changed", null,
    make("ul", { class: "claims" }, data.shares.map((s) => make("li", { class: "claim" }, changeBadge(s),
      make("div", { class: "said" }, make("p", {}, tied(s.sentence)), twin(data, s))))));
}

function sides(data) {
  return section("sides", "The two verdicts", null, make("div", { class: "sides" }, data.reports.map((r) =>
    make("div", { class: `side ${r.kind}` }, make("p", { class: "what" }, r.name), make("p", {}, r.headline)))));
}

function money(data) {
  const piles = data.reports.map((r) => r.money);
  const both = (name, of) => [name, ...piles.map(of)];
  const sum = (pile) => (pile ? largeAmount(pile.total, data.unit) : NO_NUMBER);
  const worst = (pile) => (pile?.n ? largeAmount(pile.worst, data.unit) : NO_NUMBER);
  const mean = (pile) => (pile?.n ? largeAmount(pile.mean, data.unit) : NO_NUMBER);
  const hasRule = piles.every((m) => m.flagged);
  const first = hasRule ? "accepted" : "all";
  const rows = [["Rows", ...data.reports.map((r) => `${count(r.n_rows)} ${data.noun}`)],
    both(`Total loss, ${first}`, (m) => sum(m.accepted)), both(`Average loss, ${first}`, (m) => mean(m.accepted)),
    both(`Worst loss, ${first}`, (m) => worst(m.accepted))];
  if (hasRule) {
    rows.push(both("Total loss, flagged", (m) => sum(m.flagged)),
      both("Average loss, flagged", (m) => mean(m.flagged)), both("Worst loss, flagged", (m) => worst(m.flagged)));
  }
  if (piles.every((m) => m.costs)) {
    rows.push(both("Cost of review", (m) => largeAmount(m.costs.review, m.costs.unit)),
      both("Most that review can save", (m) => largeAmount(m.costs.avoidable, m.costs.unit)));
  }
  return section("money", "Losses", "Sums and averages are those of the rows; they have no exact test here.",
    plainTable("Losses in both reports", ["", ...data.reports.map((r) => r.name)], rows));
}

/** From the share before, hollow, to the share after; groups that differ beyond chance come first. */
function partChart(data, part) {
  const known = part.rows.filter((r) => r.before.n && r.after.n);
  const jump = (r) => Math.abs(r.after.value - r.before.value);
  const rows = known.slice().sort((a, b) => (b.differs - a.differs) || jump(b) - jump(a)).slice(0, MOST_DOTS);
  const table = asTable(`By ${part.name}`, [part.name, ...data.reports.map((r) => r.name), "p-value", "differs"],
    part.rows.map((r) => [r.group, `${count(r.before.k)} of ${count(r.before.n)} (${percent(r.before.value)})`,
      `${count(r.after.k)} of ${count(r.after.n)} (${percent(r.after.value)})`, pValue(r.p_value),
      r.differs ? "yes" : "no"]));
  if (!rows.length) return make("div", {}, make("h3", {}, `By ${part.name}`), table);
  const step = 24;
  const most = Math.max(...rows.flatMap((r) => [r.before.value, r.after.value]), 0.01) * 1.08;
  const paint = (width, height) => {
    const left = Math.min(14 + Math.max(...rows.map((r) => textWidth(r.group))), 0.42 * width);
    const box = { left, right: width - 16, top: 8, bottom: height - 44 };
    const x = linearScale(0, most, left, box.right);
    const flat = Object.assign(() => 0, { ticks: () => [] });
    const out = axes(box, x, flat, { x: "share", y: "" }, { x: percent1, y: String });
    rows.forEach((r, i) => {
      const y = box.top + (i + 0.5) * step;
      out.push(draw("text", { class: "label", x: left - 10, y: y + 4, "text-anchor": "end" }, cut(r.group, left - 12)),
        draw("line", { class: r.differs ? "join miss" : "join", x1: x(r.before.value), x2: x(r.after.value), y1: y, y2: y }),
        mark("circle", x(r.before.value), y, 4, { class: "was" }),
        mark(r.differs ? "diamond" : "circle", x(r.after.value), y, 5, { class: r.differs ? "dot miss" : "dot" }),
        draw("rect", { class: "hit", x: 0, y: y - step / 2, width, height: step,
          tip: `${r.group}: ${percent(r.before.value)}, then ${percent(r.after.value)}` }));
    });
    return out;
  };
  const far = part.rows.filter((r) => r.differs).length;
  const words = `${far ? `${count(far)} of ${count(part.rows.length)} ${far === 1 ? "differs" : "differ"} beyond chance.` : "None differs beyond chance."}` +
    (known.length > rows.length ? ` The ${count(rows.length)} largest changes are drawn.` : "");
  const key = legend([{ name: data.reports[0].name, style: "was", shape: "circle" },
    { name: data.reports[1].name, style: "dot", shape: "circle" },
    ...(far ? [{ name: "differs beyond chance", style: "dot miss", shape: "diamond" }] : [])]);
  const made = chart(`By ${part.name}`, words, rows.length * step + 52, paint, table, key);
  made.element.querySelector("h3").after(make("p", { class: "help" }, words));
  return made.element;
}

function parts(data) {
  if (!data.parts.length) return null;
  return section("parts", "By group", `Share of ${data.measure.name}.`,
    make("div", { class: "partitions" }, data.parts.map((part) => partChart(data, part))));
}

function provenance(data) {
  const of = (r) => {
    const p = r.provenance;
    const digest = (text) => (text ? `, SHA-256 ${shortDigest(text)}` : "");
    const rows = [["Report", `${r.title}, ${dayText(r.created)}`],
      ["Data", `${p.data || "rows in memory"}${digest(p.data_digest)}`],
      ["Archive", `${p.archive || "in memory"}${digest(p.archive_digest)}`], ["Scorer", p.scorer_digest],
      ["Approved by", p.approved || "nobody yet"]];
    return make("div", {}, make("h3", {}, r.name), make("dl", { class: "facts" }, rows.map(([name, value]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, value)))));
  };
  return section("provenance", "Where this comes from", null, make("div", { class: "sides" }, data.reports.map(of)));
}

function test(data) {
  const rows = data.shares.map((s) => [s.kind, ...["before", "after"].map((side) => (s[side].k === null
    ? number(s[side].value) : `${count(s[side].k)} of ${count(s[side].n)}`)), pValue(s.p_value), s.differs ? "yes" : "no"]);
  return section("test", "How differences are judged",
    "Each share is compared by Fisher's exact test, two-sided, which holds for rows of the two reports that are " +
    "independent of each other. The main figures are judged together by Bonferroni-Holm at half of " +
    `${level(data.error)}, the groups at the other half. If nothing has changed, the chance that anything is ` +
    `called a difference is at most ${level(data.error)}.`,
    asTable("The tests", ["figure", ...data.reports.map((r) => r.name), "p-value", "differs"], rows));
}

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const about = [`${data.reports[0].name} against ${data.reports[1].name}`, `compared on ${dayText(data.created)}`];
  pageHead(data.title, about, data.kind, banner(data));
  pageBody([shares(data), sides(data), money(data), parts(data), provenance(data), test(data)].filter(Boolean), NAMES);
}

start();
