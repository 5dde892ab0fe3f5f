// The page, from top to bottom.
const NAMES = { claims: "Verdict", guarantee: "Guarantee", "rule-groups": "Rule by group", explorer: "Operating point", coverage: "Coverage",
  losses: "Bound and loss", parts: "By part", pit: "PIT", curve: "Ranking", bounds: "Bounds",
  rows: "Rows", attribution: "Drivers", facts: "Facts" };

function themeButton() {
  const root = document.documentElement;
  const prefers = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ?? (prefers.matches ? "dark" : "light")) === "dark";
  const button = make("button", { type: "button", id: "theme", on: { click: () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    show();
  } } });
  const show = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.setAttribute("aria-label", "Switch between light and dark");
  prefers.addEventListener("change", show);
  show();
  return button;
}

/** Whether a bound is the largest loss there can be, which every loss is within. */
const isTrivial = (c) => c.expected === 1 && c.agrees;

const ICONS = { good: "\u2713", bad: "!", warn: "!", plain: "\u2013" };

function header(data) {
  const { kind, sentence } = data.verdict;
  const about = [`${count(data.n_rows)} test rows`, data.created, `locuscore ${data.locuscore}`];
  const print = make("button", { type: "button", on: { click: () => window.print() } }, "Print");
  document.getElementById("top").append(
    make("div", { class: "row head" },
      make("div", {}, make("h1", {}, data.title), make("p", { class: "about" }, about.join(" \u00b7 "))),
      make("div", { class: "row tools" }, themeButton(), print)),
    make("p", { class: `banner ${kind}`, id: "verdict" },
      make("span", { class: "icon", "aria-hidden": "true" }, ICONS[kind]), make("span", {}, tied(sentence))));
}

/** Inside a notebook's frame a link to a section would lead out of it; there it only scrolls. */
function watchLinks() {
  if (window.location.protocol !== "about:") return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    event.preventDefault();
    const section = document.getElementById(link.getAttribute("href").slice(1));
    section.tabIndex = -1;
    section.scrollIntoView();
    section.focus({ preventScroll: true });
  });
}

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  header(data);
  const hasGrid = data.explorer && data.explorer.taus.length && data.explorer.alphas.length;
  const made = [claims(data), guarantee(data), ruleGroups(data), hasGrid ? explorer(data) : null, coverage(data),
    boundAndLoss(data), parts(data), pit(data), curve(data), bounds(data), rows(data), attribution(data), facts(data)]
    .filter(Boolean);
  document.getElementById("main").append(...made);
  document.getElementById("contents").append(make("ul", {}, made.map((part) =>
    make("li", {}, make("a", { href: `#${part.id}` }, NAMES[part.id])))));
  document.getElementById("foot").append(make("p", {}, "This page is complete in itself: it loads " +
    "nothing and sends nothing."));
  watchTips();
  watchLinks();
}

start();
