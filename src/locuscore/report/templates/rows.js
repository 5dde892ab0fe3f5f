// The riskiest and the safest rows: sorted by any column, filtered by any text.

/** A cell as text; numbers of features are not grouped, for years and codes are among them. */
function cellText(value, column, format = number) {
  if (value === null || value === undefined) return column.role === "bound" ? INFINITE : NO_NUMBER;
  if (typeof value === "boolean") {
    return column.role === "flag" ? (value ? "flagged" : "accepted") : value ? "yes" : "no";
  }
  if (typeof value !== "number") return String(value);
  if ((column.role === "feature" || column.role === "id") && Number.isInteger(value)) {
    return Math.abs(value) < 10000 ? String(value) : number(value);
  }
  return format(value);
}

const byText = new Intl.Collator(LOCALE, { numeric: true });

/** Order of two cells, ascending: an unlimited bound is above all, other missing cells come last. */
function compareCells(a, b, column, direction) {
  const missing = (v) => v === null || v === undefined;
  if (column.role !== "bound" && (missing(a) || missing(b))) return missing(a) - missing(b);
  if (column.kind === "number") {
    const [x, y] = [a, b].map((v) => (missing(v) ? Infinity : Number(v)));
    return x === y ? 0 : direction * (x < y ? -1 : 1);
  }
  return direction * byText.compare(String(a), String(b));
}

function chip({ name, value, factor: times }) {
  const raises = isNumber(times) && times >= 1;
  const shown = value === null || value === undefined || value === "" ? ""
    : typeof value === "number" ? number(value, 4) : String(value);
  const words = `${name}${shown ? ` = ${shown}` : ""} ` +
    `${raises ? "raises" : "lowers"} the bound: ${factor(times)}`;
  return make("li", { class: raises ? "chip up" : "chip down", tip: words },
    make("span", { "aria-hidden": "true" }, raises ? "\u25b2" : "\u25bc"),
    make("span", { class: "chip-name" }, name),
    make("strong", {}, factor(times)),
    make("span", { class: "unseen" }, raises ? "raises" : "lowers"));
}

function rowsTable(data) {
  const { columns } = data.rows;
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
    ...(row.reasons ?? []).map((r) => r.name)].join("\u0000").toLowerCase();

  const sorted = () => {
    const words = state.filter.toLowerCase();
    const found = data.rows[state.which].filter((row) => textOf(row).includes(words));
    if (state.column === null) return found;
    const at = state.column;
    return found.slice().sort((a, b) =>
      compareCells(cellsOf(a)[at], cellsOf(b)[at], keys[at], state.direction));
  };
  const line = (row) => {
    const [first, ...rest] = cellsOf(row).map((value, i) =>
      cellText(value, keys[i], shownAs[i]));
    const kind = (i) => (columns[i].kind === "number" ? "number" : "text");
    const flag = (text, i) => (columns[i].role === "flag"
      ? make("span", { class: `flag ${text}` }, text) : text);
    return make("tr", {}, make("th", { scope: "row" }, first),
      rest.map((text, i) => make("td", { class: kind(i) }, flag(text, i))),
      hasReasons ? make("td", {}, make("ul", { class: "chips" }, (row.reasons ?? []).map(chip))) : null);
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
    const button = make("button", { type: "button", on: { click: () => sortBy(i) } }, column.name,
      make("span", { class: "arrow", "aria-hidden": "true" }));
    heads.push(make("th", { scope: "col", class: column.kind, "aria-sort": "none" }, button));
    return heads[i];
  };
  const headRow = make("tr", {}, keys.map(head),
    hasReasons ? make("th", { scope: "col" }, "drives the bound") : null);
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
