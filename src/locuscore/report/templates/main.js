// The page, from top to bottom.
const NAMES = { claims: "Verdict", guarantee: "Guarantee", "rule-groups": "Rule by group", explorer: "Operating point", coverage: "Coverage",
  losses: "Bound and loss", parts: "By part", pit: "PIT", curve: "Ranking", bounds: "Bounds",
  rows: "Rows", attribution: "Drivers", facts: "Facts" };

/** Whether a bound is the largest loss there can be, which every loss is within. */
const isTrivial = (c) => c.expected === 1 && c.agrees;

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const about = [`${count(data.n_rows)} test rows`, data.created, `locuscore ${data.locuscore}`];
  pageHead(data.title, about, data.verdict.kind, make("span", {}, tied(data.verdict.sentence)));
  const hasGrid = data.explorer && data.explorer.taus.length && data.explorer.alphas.length;
  pageBody([claims(data), guarantee(data), ruleGroups(data), hasGrid ? explorer(data) : null, coverage(data),
    boundAndLoss(data), parts(data), pit(data), curve(data), bounds(data), rows(data), attribution(data), facts(data)]
    .filter(Boolean), NAMES);
}

start();
