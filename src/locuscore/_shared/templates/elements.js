// Elements are made here; text goes in as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";
const tips = new WeakMap();
let lastId = 0;
const newId = (name) => `${name}-${(lastId += 1)}`;

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") {
      for (const [event, listener] of Object.entries(value)) {
        element.addEventListener(event, listener);
      }
    } else if (key === "tip") tips.set(element, value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return element;
}

const make = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** A sentence whose equations, such as "p = 0.1", stay on one line. */
const tied = (text) => text.replace(/ (=|<) /g, "\u00a0$1\u00a0");

/** A section with its heading; empty ones are left out by the caller. */
function section(id, title, lead, ...children) {
  const heading = make("h2", { id: `${id}-title` }, title);
  const words = lead ? make("p", { class: "lead" }, lead) : null;
  const attributes = { id, class: "panel", "aria-labelledby": `${id}-title` };
  return make("section", attributes, heading, words, ...children);
}

/** A table of text: `head` of the columns, one array of texts per row; the first is its header. */
function plainTable(caption, head, rows, style = "") {
  const cell = (text, i) =>
    i === 0 ? make("th", { scope: "row" }, text) : make("td", {}, text);
  return make(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    make(
      "table",
      { class: `plain ${style}` },
      make("caption", {}, caption),
      make("thead", {}, make("tr", {}, head.map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, rows.map((row) => make("tr", {}, row.map(cell)))),
    ),
  );
}

/** The numbers behind a chart, folded away. */
const asTable = (caption, head, rows) =>
  make("details", { class: "numbers" }, make("summary", {}, "As a table"),
    plainTable(caption, head, rows));

/** One box for all tips, moved to the pointer and kept inside the window. */
function showTip(text, event) {
  const box = document.getElementById("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  const { width, height } = box.getBoundingClientRect();
  const gap = 14;
  const left = Math.max(4, Math.min(event.clientX + gap, window.innerWidth - width - 4));
  const above = event.clientY - height - gap;
  box.style.left = `${left}px`;
  box.style.top = `${above > 4 ? above : event.clientY + gap}px`;
}

function watchTips() {
  document.addEventListener("pointermove", (event) => showTip(tips.get(event.target), event));
  document.addEventListener("pointerleave", () => showTip("", null));
  window.addEventListener("scroll", () => showTip("", null), { passive: true });
}

/** Put text on the clipboard, also where the page is a file. */
async function copyText(text, source) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    window.getSelection().selectAllChildren(source);
    return document.execCommand("copy");
  }
}
