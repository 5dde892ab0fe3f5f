// What people who decide read first: the verdict in counts, money, parts, and where it comes from.
const CONTRADICTED = "contradicted";
const NOT_JUDGED = "not judged"; // the rows were used to fit
const VERDICTS = { kept: ["good", "kept"], [CONTRADICTED]: ["bad", CONTRADICTED],
  [NOT_JUDGED]: ["plain", NOT_JUDGED], "not tested": ["plain", "not tested"] };
const MOST_CLAIMS = 6;

/** Each claim with the exact test of it; an aim that was never promised is only missed. */
function claimBadge(c) {
  const isMissed = c.verdict === CONTRADICTED && c.standing === "heuristic";
  const [kind, text] = isMissed ? ["warn", "missed"]
    : VERDICTS[c.verdict] ?? ["plain", "too few rows to tell"];
  return make("strong", { class: `badge ${kind}` }, text);
}

/** What was seen, as a bar against the promise; both are in the sentence, so it is not read out. */
function meter(c) {
  if (!isNumber(c.observed) || !(c.promised > 0) || c.promised >= 1) return null;
  const top = 1.25 * Math.max(c.observed, c.promised);
  const box = make("div", { class: `meter ${c.verdict === CONTRADICTED ? "broken" : c.observed > c.promised ? "over" : ""}`,
    "aria-hidden": "true" }, make("span", { class: "fill" }), make("span", { class: "limit" }));
  box.style.setProperty("--seen", `${(100 * c.observed) / top}%`);
  box.style.setProperty("--limit", `${(100 * c.promised) / top}%`);
  return box;
}

const claimItem = (c) => make("li", { class: "claim" }, claimBadge(c),
  make("div", { class: "said" }, make("p", {}, tied(c.plain ?? c.sentence)), meter(c)));

/** Parts that stand out although, or because, the promise is about all of them together. */
function look(data) {
  const list = data.verdict.attention ?? [];
  if (!list.length) return null;
  return make("div", { class: "look" }, make("h3", {}, "Look closer"),
    make("ul", {}, list.map((text) => make("li", {}, text))));
}

function claims(data) {
  const urgent = (c) => (c.verdict === CONTRADICTED ? 0 : 1);
  const list = data.verdict.claims.slice().sort((a, b) => urgent(a) - urgent(b));
  if (!list.length) return null;
  const more = list.slice(MOST_CLAIMS);
  return section("claims", "Are the promises kept?", null,
    make("ul", { class: "claims" }, list.slice(0, MOST_CLAIMS).map(claimItem)), look(data),
    more.length ? make("details", {}, make("summary", {}, `${count(more.length)} more`),
      make("ul", { class: "claims" }, more.map(claimItem))) : null);
}

function tile(name, value, ...notes) {
  return make("div", { class: "tile" }, make("p", { class: "what" }, name),
    make("p", { class: "value" }, value),
    notes.filter(Boolean).map((text) => make("p", { class: "note" }, text)));
}

/** Total and worst loss of the rows that are accepted and of those that are flagged. */
function money(data) {
  const m = data.money;
  if (!m) return null;
  const unit = data.unit;
  const sum = (pile) => largeAmount(pile.total, unit);
  const worst = (pile) => (pile.n ? `worst ${largeAmount(pile.worst, unit)}, average ` +
    `${largeAmount(pile.mean, unit)}` : "none");
  const many = (pile) => `${count(pile.n)} ${data.noun}`;
  const tiles = m.flagged ? [
    tile("Total loss, accepted", sum(m.accepted), many(m.accepted), worst(m.accepted)),
    tile("Total loss, flagged", sum(m.flagged), many(m.flagged), worst(m.flagged))]
    : [tile("Total loss", sum(m.accepted), many(m.accepted), worst(m.accepted))];
  const c = m.costs;
  if (c) {
    tiles.push(tile("Cost of review", largeAmount(c.review, c.unit),
      `${count(m.flagged.n)} at ${amount(c.review_each, c.unit, AS_TYPED)} each`),
    tile("Most that review can save", largeAmount(c.avoidable, c.unit),
      c.bad_each === null ? "the loss of the flagged"
        : `${count(m.flagged.bad)} at ${amount(c.bad_each, c.unit, AS_TYPED)} each`,
      isNumber(c.break_even) ? `review pays if it saves ${percent1(Number(c.break_even.toPrecision(2)))} of this` : null));
  }
  return section("money", c ? "Losses and costs" : "Losses", null,
    make("div", { class: `tiles n${tiles.length}` }, tiles),
    make("ul", { class: "notes" }, m.sentences.map((text) => make("li", {}, text))));
}

/** The parts that a chart shows: those that stand out, then the largest; in the order of the table. */
function notable(part) {
  if (part.is_time || part.rows.length <= MOST_DOTS + 4) return part.rows;
  const stands = (r) => (r.standing === "worse" ? 0 : r.standing === "better" ? 1 : 2);
  const first = part.rows.slice().sort((a, b) => stands(a) - stands(b)).slice(0, MOST_DOTS);
  return part.rows.filter((r) => first.includes(r));
}

/** Groups from the worst on; times as they go. */
const inOrder = (part, rows) => (part.is_time ? rows : rows.slice().sort((a, b) => b.share - a.share));

function partChart(data, part) {
  const { promised, name, word } = data.measure;
  const wanted = isNumber(promised) ? promised : undefined;
  const known = part.rows.filter((r) => r.of > 0);
  const rows = inOrder(part, notable({ ...part, rows: known })).map((r) => ({ ...r, label: r.group, value: r.share,
    misses: r.standing === "worse" }));
  const table = asTable(`By ${part.name}`, [part.column, data.noun, "counted among", "of these", "share",
    "simultaneous 95 % interval", "total loss", "compared with the promise"],
  part.rows.map((r) => [r.group, count(r.n), count(r.of), count(r.k), percent(r.share),
    `${percent(r.low)} to ${percent(r.high)}`, largeAmount(r.loss, data.unit), r.standing]));
  if (!rows.length) return make("div", {}, make("h3", {}, `By ${part.name}`), table);
  const { height, paint } = dotRows(rows, { target: wanted, targetName: `${word} ${level(promised)}`,
    xName: `share of the ${data.measure.among === "accepted" ? "accepted" : data.noun}`, step: 24,
    tip: (r) => `${r.label}: ${count(r.k)} of ${count(r.of)}, ${percent(r.share)} ` +
      `(${percent(r.low)} to ${percent(r.high)})` });
  const hidden = known.length - rows.length;
  const words = [part.finding, part.trend?.sentence ?? "", hidden ? `${count(hidden)} more are in the table.` : ""]
    .filter(Boolean).join(" ");
  const made = chart(`By ${part.name}`, `${name}. ${words}`, height, paint, table, null);
  made.element.querySelector("h3").after(make("p", { class: "help" }, words));
  return made.element;
}

/** By group and over time; intervals of all parts hold at once. */
function parts(data) {
  const list = data.parts ?? [];
  if (!list.length) return null;
  const { name, word } = data.measure;
  const together = word === "promised"
    ? `The promise is about all ${data.noun} together: none of these parts is promised it by itself.`
    : "The rule is a heuristic: it aims at a share and promises none.";
  return section("parts", list.some((p) => p.is_time) ? "By group and over time" : "By group",
    `Share of ${name}, with simultaneous 95 % intervals. ${together}`,
    make("div", { class: "partitions" }, list.map((part) => partChart(data, part))));
}

const WIDTHS = { Data: "half", Archive: "half", "Archive written by": "wide" };

/** Where data and archive come from, who approved, and until when the rule may be used. */
function provenance(data) {
  const p = data.provenance;
  if (!p) return null;
  const days = p.first_day ? `${dayText(p.first_day)} to ${dayText(p.last_day)}` : "";
  const until = p.valid_until ? `${dayText(p.valid_until)}${p.is_expired ? " (expired)" : ""}` : "no limit set";
  const digest = (text) => (text ? make("span", { class: "digest", tip: text },
    make("span", { class: "unseen" }, text), make("span", { class: "short", "aria-hidden": "true" }, shortDigest(text))) : "");
  const versions = Object.entries(p.versions).map(([name, text]) => `${name} ${text}`).join(", ");
  const facts = [["Data", [p.data || "rows in memory", p.data_digest ? ", SHA-256 " : "", digest(p.data_digest)]],
    ["Archive", [p.archive || "in memory", p.archive_digest ? ", SHA-256 " : "", digest(p.archive_digest)]],
    ["Rows", [`${count(data.n_rows)} ${data.noun}${days ? `, ${days}` : ""}`]],
    ["Signature of the archive", [p.signature || "not known"]],
    ["Scorer", [p.scorer_digest]],
    ["Report made", [`${dayText(data.created)}, locuscore ${p.reported_by}`]],
    ["Rule valid until", [until]],
    ["Approved by", [p.approved || "nobody yet"]],
    ["Archive written by", [versions]]];
  return section("provenance", "Where this comes from", null, make("dl", { class: "facts" },
    facts.map(([name, value]) => make("div", { class: WIDTHS[name] ?? null }, make("dt", {}, name), make("dd", {}, value)))));
}
