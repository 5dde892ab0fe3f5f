// The frame of a page: its head, its links to sections, light and dark.
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

const ICONS = { good: "\u2713", bad: "!", warn: "!", plain: "\u2013" };

/** Title, what the page is about in one line, buttons, and the verdict as a banner. */
function pageHead(title, about, kind, ...verdict) {
  const print = make("button", { type: "button", on: { click: () => window.print() } }, "Print");
  document.getElementById("top").append(
    make("div", { class: "row head" },
      make("div", {}, make("h1", {}, title), make("p", { class: "about" }, about.join(" \u00b7 "))),
      make("div", { class: "row tools" }, themeButton(), print)),
    make("div", { class: `banner ${kind}`, id: "verdict" },
      make("span", { class: "icon", "aria-hidden": "true" }, ICONS[kind]), ...verdict));
}

/** Put the sections on the page, with a link to each. */
function pageBody(sections, names) {
  document.getElementById("main").append(...sections);
  document.getElementById("contents").append(make("ul", {}, sections.map((part) =>
    make("li", {}, make("a", { href: `#${part.id}` }, names[part.id])))));
  document.getElementById("foot").append(make("p", {}, "This page is complete in itself: it loads " +
    "nothing and sends nothing."));
  watchTips();
  watchLinks();
}

/** Inside a frame of a notebook a link to a section would lead out of it; there it only scrolls. */
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
