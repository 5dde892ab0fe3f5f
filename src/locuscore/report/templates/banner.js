// What a report and a comparison of two have in common.
const MOST_DOTS = 12; // groups in a chart
const shortDigest = (text) => (text.length > 16 ? `${text.slice(0, 16)}\u2026` : text);

/** Headline of the verdict, and what has to be said beside it. */
function banner(verdict) {
  const notes = (verdict.notes ?? []).map((text) => make("p", { class: "beside" }, text));
  return make("div", {}, make("p", { class: "headline" }, tied(verdict.headline ?? verdict.sentence)), notes);
}
