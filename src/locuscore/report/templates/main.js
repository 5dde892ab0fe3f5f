// The page, from top to bottom: what a committee reads, then the technical part, folded.
const NAMES = { claims: "Verdict", money: "Losses", parts: "By part", attribution: "Drivers", rows: "Rows",
  provenance: "Provenance", technical: "Technical part" };

/** Whether a bound is the largest loss there can be, which every loss is within. */
const isTrivial = (c) => c.expected === 1 && c.agrees;

/** Everything with formulas, in one fold; a link to any of its sections opens it. */
function technical(data) {
  const hasGrid = data.explorer && data.explorer.taus.length && data.explorer.alphas.length;
  const inside = [tests(data), guarantee(data), ruleGroups(data), hasGrid ? explorer(data) : null,
    coverage(data), boundAndLoss(data), deciles(data), pit(data), curve(data), bounds(data), method(data),
    facts(data)].filter(Boolean);
  const links = inside.map((part) => make("li", {}, make("a", { href: `#${part.id}` },
    part.querySelector("h2").textContent)));
  const fold = make("details", { class: "fold" },
    make("summary", {}, make("h2", { id: "technical-title" }, "Technical part"),
      make("span", { class: "lead" }, "Exact tests, the guarantee, other operating points, coverage and diagnostics.")),
    make("ul", { class: "links" }, links), inside);
  return make("section", { id: "technical", "aria-labelledby": "technical-title" }, fold);
}

function openFolds() {
  const reveal = (id) => {
    let part = id ? document.getElementById(id) : null;
    if (part?.id === "technical") part = part.firstElementChild;
    for (; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link) reveal(link.getAttribute("href").slice(1));
  }, true);
  reveal(decodeURIComponent(window.location.hash.slice(1)));
}

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const p = data.provenance ?? {};
  const about = [`${count(data.n_rows)} ${data.noun}`,
    p.first_day ? `${dayText(p.first_day)} to ${dayText(p.last_day)}` : null,
    `report of ${dayText(data.created)}`, p.approved ? `approved by ${p.approved}` : null,
    p.valid_until ? `rule valid until ${dayText(p.valid_until)}` : null].filter(Boolean);
  pageHead(data.title, about, data.verdict.kind, banner(data.verdict));
  pageBody([claims(data), money(data), parts(data), attribution(data), rows(data), provenance(data),
    technical(data)].filter(Boolean), NAMES);
  openFolds();
}

start();
