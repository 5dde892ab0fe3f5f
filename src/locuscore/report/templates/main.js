// The page, from top to bottom.
const NAMES = { guarantee: "Guarantee", explorer: "Operating point", coverage: "Coverage",
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

/** The one line a committee looks for: does what was seen agree with what was promised? */
function verdict(data) {
  const wrong = data.coverage.filter((c) => !c.agrees);
  const names = (list) => list.map((c) => `alpha = ${number(c.alpha, 6)}`).join(" and ");
  if (!data.coverage.length) {
    return { kind: "plain", text: "Coverage was not measured on these rows." };
  }
  if (!wrong.length) {
    const c = data.coverage.find((part) => !isTrivial(part));
    if (!c) {
      return { kind: "warn", text: "Calibration rows are too few for a bound of use: it is the " +
        "largest loss there can be, so coverage cannot be tested." };
    }
    return { kind: "good", text: `Held-out coverage agrees with the guarantee: ${percent(c.rate)} ` +
      `of ${count(c.n)} losses lie within their bound, ${level(1 - c.alpha)} was promised.` };
  }
  const low = wrong.filter((c) => c.rate < c.expected);
  if (low.length) {
    return { kind: "bad", text: "Held-out coverage is lower than chance explains, at " +
      `${names(low)}: these rows are probably unlike the calibration rows.` };
  }
  return { kind: "warn", text: `Held-out coverage is higher than expected, at ${names(wrong)}: the ` +
    "bounds hold, but they are wider than they need be, or losses tie." };
}

const ICONS = { good: "\u2713", bad: "!", warn: "!", plain: "\u2013" };

function header(data) {
  const { kind, text } = verdict(data);
  const about = [`${count(data.n_rows)} test rows`, data.created, `locuscore ${data.locuscore}`];
  const print = make("button", { type: "button", on: { click: () => window.print() } }, "Print");
  document.getElementById("top").append(
    make("div", { class: "row head" },
      make("div", {}, make("h1", {}, data.title), make("p", { class: "about" }, about.join(" \u00b7 "))),
      make("div", { class: "row tools" }, themeButton(), print)),
    make("p", { class: `banner ${kind}`, id: "verdict" },
      make("span", { class: "icon", "aria-hidden": "true" }, ICONS[kind]), make("span", {}, text)));
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
  const made = [guarantee(data), hasGrid ? explorer(data) : null, coverage(data), boundAndLoss(data),
    parts(data), pit(data), curve(data), bounds(data), rows(data), attribution(data), facts(data)]
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
