// The riskiest and the safest rows: sorted by any column, filtered by any text.

/** Bounds and scores are never missing: null stands for infinity. */
const isUnlimited = (column) => column.role === "bound" || column.role === "score";

/** A cell as text; digits of codes, such as zip codes and years, are not grouped. */
function cellText(value, column, format = number) {
  if (value === null || value === undefined) return isUnlimited(column) ? INFINITE : NO_NUMBER;
  if (typeof value === "boolean") {
    return column.role === "flag" ? (value ? "flagged" : "accepted") : value ? "yes" : "no";
  }
  if (typeof value !== "number" || column.kind === "code") return String(value);
  // Years and small codes are among the features, whatever they are called.
  if ((column.role === "feature" || column.role === "id") && Number.isInteger(value)) {
    return Math.abs(value) < 10000 ? String(value) : number(value);
  }
  return format(value);
}

const isNumeric = (column) => column.kind === "number" || column.kind === "code";
const cellClass = (column) => `${isNumeric(column) ? "number" : "text"} ` +
  `${column.role === "feature" ? "feature" : ""}`;
/** A long text is cut; all of it is in the tip. */
function shortText(text, most) {
  const letters = Array.from(text);
  if (letters.length <= most) return text;
  return make("span", { class: "short", tip: text }, `${letters.slice(0, most - 1).join("")}\u2026`);
}

const byText = new Intl.Collator(LOCALE, { numeric: true });

/** Order of two cells, ascending: what is unlimited is above all, other missing cells come last. */
function compareCells(a, b, column, direction) {
  const missing = (v) => v === null || v === undefined;
  if (!isUnlimited(column) && (missing(a) || missing(b))) return missing(a) - missing(b);
  if (isNumeric(column)) {
    const [x, y] = [a, b].map((v) => (missing(v) ? Infinity : Number(v)));
    return x === y ? 0 : direction * (x < y ? -1 : 1);
  }
  return direction * byText.compare(String(a), String(b));
}

const MOST_CHIPS = 3;
/** What reasons are about: the bound, or a probability where no bound is finite. */
const driven = (data) => ((data.attribution?.what ?? "the bound").startsWith("the bound")
  ? "bound" : "risk");
const raisesBound = ({ factor: times }) => isNumber(times) && times >= 1;

function reasonWords(reason, what) {
  const { name, value, text, factor: times } = reason;
  const shown = text ? ` (${text})` : value === null || value === undefined || value === "" ? ""
    : ` = ${typeof value === "number" ? number(value, 4) : value}`;
  return `${name}${shown} ${raisesBound(reason) ? "raises" : "lowers"} the ${what}: ${factor(times)}`;
}

/** The strongest reasons as chips and their sentences; the weaker ones behind one that counts them. */
function chips(reasons, what) {
  const [strong, weaker] = [reasons.slice(0, MOST_CHIPS), reasons.slice(MOST_CHIPS)];
  const words = weaker.map((reason) => reasonWords(reason, what)).join("; ");
  const more = weaker.length
    ? make("li", { class: "chip more", tip: words }, `+${weaker.length} weaker`) : null;
  const sentences = strong.filter(({ text }) => text).map(({ text }) =>
    make("p", { class: "reason" }, `${text[0].toUpperCase()}${text.slice(1)}.`));
  return [make("ul", { class: "chips" }, strong.map((reason) => chip(reason, what)), more),
    ...sentences];
}

function chip(reason, what) {
  const { name, factor: times } = reason;
  const raises = raisesBound(reason);
  return make("li", { class: raises ? "chip up" : "chip down", tip: reasonWords(reason, what) },
    make("span", { "aria-hidden": "true" }, raises ? "\u25b2" : "\u25bc"),
    make("span", { class: "chip-name" }, name),
    make("strong", {}, factor(times)),
    make("span", { class: "unseen" }, raises ? "raises" : "lowers"));
}

function rowsTable(data) {
  const { columns } = data.rows;
  const what = driven(data);
  const state = { which: data.rows.riskiest.length ? "riskiest" : "safest",
    column: null, direction: 1, filter: "" };
  const hasReasons = ["riskiest", "safest"].some((k) => data.rows[k].some((r) => r.reasons?.length));
  const body = make("tbody");
  const status = make("p", { class: "help", role: "status", id: "rows-status" });
  const heads = [];
  const keys = [{ name: "row", kind: "text", role: "id" }, ...columns];
  const cellsOf = (row) => [row.row, ...row.values];
  const every = [...data.rows.riskiest, ...data.rows.safest];
  const shownAs = keys.map((_, i) => columnFormat(every.map((row) => cellsOf(row)[i])));
  const textOf = (row) => [...cellsOf(row).map((v, i) => cellText(v, keys[i], shownAs[i])),
    ...(row.reasons ?? []).flatMap((r) => [r.name, r.text ?? ""])].join("\u0000").toLowerCase();

  const sorted = () => {
    const words = state.filter.toLowerCase();
    const found = data.rows[state.which].filter((row) => textOf(row).includes(words));
    if (state.column === null) return found;
    const at = state.column;
    return found.slice().sort((a, b) =>
      compareCells(cellsOf(a)[at], cellsOf(b)[at], keys[at], state.direction));
  };
  // Reasons stand before the features, so that they are seen without scrolling.
  const first = columns.findIndex((column) => column.role === "feature");
  const split = first < 0 ? columns.length : first;
  const around = (cells, reasons) => (hasReasons
    ? [...cells.slice(0, split), reasons(), ...cells.slice(split)] : cells);
  const line = (row) => {
    const [name, ...rest] = cellsOf(row).map((value, i) =>
      cellText(value, keys[i], shownAs[i]));
    const flag = (text, i) => (columns[i].role === "flag"
      ? make("span", { class: text.startsWith("flag") ? "flag flagged" : "flag" }, text)
      : isNumeric(columns[i]) ? text : make("div", { class: "words" }, shortText(text, 60)));
    return make("tr", {}, make("th", { scope: "row" }, shortText(name, 18)),
      around(rest.map((text, i) => make("td", { class: cellClass(columns[i]) }, flag(text, i))),
        () => make("td", {}, chips(row.reasons ?? [], what))));
  };
  const show = () => {
    const rows = sorted();
    body.replaceChildren(...rows.map(line));
    heads.forEach((head, i) => head.setAttribute("aria-sort",
      i !== state.column ? "none" : state.direction > 0 ? "ascending" : "descending"));
    status.textContent = `${count(rows.length)} of ${count(data.rows[state.which].length)} ` +
      `${state.which} rows` + (state.column === null ? ""
      : `, by ${keys[state.column].name}, ${state.direction > 0 ? "ascending" : "descending"}`);
  };
  const sortBy = (i) => {
    state.direction = state.column === i ? -state.direction : 1;
    state.column = i;
    show();
  };
  const head = (column, i) => {
    const button = make("button", { type: "button", on: { click: () => sortBy(i) } },
      shortText(column.name.replaceAll(" = ", "\u00a0=\u00a0"), 60),
      make("span", { class: "arrow", "aria-hidden": "true" }));
    heads.push(make("th", { scope: "col", class: cellClass(column), "aria-sort": "none" }, button));
    return heads[i];
  };
  const [rowHead, ...otherHeads] = keys.map(head);
  const headRow = make("tr", {}, rowHead,
    around(otherHeads, () => make("th", { scope: "col" }, `drives the ${what}`)));
  const table = make("table", { class: "rows", id: "rows-table" },
    make("caption", { class: "unseen" }, "Rows with their bounds; the buttons sort"),
    make("thead", {}, headRow), body);
  const choose = (value, words) => make("label", {}, make("input", { type: "radio", name: "rows",
    value, checked: value === state.which, on: { change: () => { state.which = value; show(); } } }),
  make("span", {}, words));
  const filter = make("input", { type: "search", id: "rows-filter", autocomplete: "off",
    on: { input: (event) => { state.filter = event.target.value; show(); } } });
  show();
  return make("div", {},
    make("div", { class: "row rows-tools" },
      make("fieldset", { class: "modes" }, make("legend", {}, "Show the"),
        choose("riskiest", "riskiest"), choose("safest", "safest")),
      make("div", { class: "field" }, make("label", { for: "rows-filter" }, "Filter"), filter)),
    status,
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of rows" }, table));
}
