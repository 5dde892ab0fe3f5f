// Charts as SVG, drawn at the width they have, so that text keeps its size on a phone.
const ruler = document.createElement("canvas").getContext("2d");
ruler.font = `12.5px ${getComputedStyle(document.body).fontFamily}`;

const PAPER = 690; // pixels between the margins of A4

/** Width of a text in a chart, in pixels. */
const textWidth = (text) => ruler.measureText(text).width;

/** As much of a text as there is room for. */
function cut(text, room) {
  if (textWidth(text) <= room) return text;
  const letters = Array.from(text).slice(0, Math.ceil(room / 2));
  while (letters.length > 1 && textWidth(`${letters.join("")}\u2026`) > room) letters.pop();
  return `${letters.join("")}\u2026`;
}

/** A figure with a visible title, a description for screen readers, and its numbers as a table. */
function chart(title, description, height, paint, numbers = null, legend = null, tag = "h3") {
  const holder = make("div", { class: "chart" });
  const heading = make(tag, { id: newId("figure") }, title);
  const describe = newId("description");
  // Known from the observer: asking for it at every move of a slider would lay out the page.
  let room = 640;
  const render = () => {
    const width = Math.max(240, Math.floor(room));
    const tall = typeof height === "function" ? height(width) : height;
    const attributes = {
      viewBox: `0 0 ${width} ${tall}`,
      width,
      height: tall,
      role: "img",
      "aria-labelledby": heading.id,
      "aria-describedby": describe,
    };
    const words = typeof description === "function" ? description() : description;
    holder.replaceChildren(
      draw("svg", attributes, draw("desc", { id: describe }, words), ...paint(width, tall)),
    );
  };
  new ResizeObserver(([entry]) => {
    const now = entry.contentRect.width;
    if (!now || (holder.firstChild && Math.abs(now - room) < 1)) return;
    room = now;
    render();
  }).observe(holder);
  // On paper a chart has its share of the width of the page, whatever the window's.
  const onPaper = () => {
    const whole = document.getElementById("main").clientWidth;
    if (!holder.clientWidth || !whole) return;
    room = PAPER * (holder.clientWidth > 0.6 * whole ? 1 : 0.48);
    render();
  };
  window.addEventListener("beforeprint", onPaper);
  window.addEventListener("afterprint", () => {
    if (!holder.clientWidth) return;
    room = holder.clientWidth;
    render();
  });
  const element = make("figure", {}, heading, legend, holder, numbers);
  return { element, render };
}

function niceTicks(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const times = rough / power;
  const step = power * (times >= 7 ? 10 : times >= 3.2 ? 5 : times >= 1.5 ? 2 : 1);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) {
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}

function linearScale(low, high, from, to) {
  const span = high - low || 1;
  const scale = (x) => from + ((x - low) / span) * (to - from);
  return Object.assign(scale, { low, high, ticks: (n) => niceTicks(low, low + span, n) });
}

/** Like a logarithm above `unit`, straight through zero below it. */
function skewedScale(unit, low, high, from, to) {
  const bend = (x) => Math.asinh(x / unit);
  const straight = linearScale(bend(low), bend(high), from, to);
  const ticks = (n) => {
    const tens = [];
    for (let e = Math.ceil(Math.log10(unit) - 1e-9); 10 ** e <= high; e += 1) tens.push(10 ** e);
    const every = Math.max(1, Math.ceil(tens.length / Math.max(1, n - 1)));
    const kept = tens.filter((_, i) => (tens.length - 1 - i) % every === 0);
    const minor = tens.length <= 2 ? tens.flatMap((t) => [2 * t, 5 * t]) : [];
    const positive = [...kept, ...minor].filter((t) => t <= high && t >= low);
    const all = low < 0 ? [...positive.map((t) => -t).filter((t) => t >= low), 0, ...positive]
      : low === 0 ? [0, ...positive] : positive;
    return all.map((t) => Number(t.toPrecision(12))).sort((a, b) => a - b);
  };
  return Object.assign((x) => straight(bend(x)), { low, high, ticks });
}

/** The scale that shows these values: bent where a few of them dwarf the rest. */
function scaleMaker(values, low, high) {
  const positive = values.filter((v) => isNumber(v) && v > 0).sort((a, b) => a - b);
  const at = (share) => positive[Math.floor(share * (positive.length - 1))];
  const isSkewed = positive.length > 1 && high > 12 * at(0.5);
  if (!isSkewed) return { isSkewed, on: (from, to) => linearScale(low, high, from, to) };
  const unit = Math.max(at(0.05), high / 1e5);
  return { isSkewed, on: (from, to) => skewedScale(unit, low, high, from, to) };
}

const tickText = (format, ticks) => {
  const texts = ticks.map(format);
  return texts.length === new Set(texts).size ? texts : ticks.map((t) => number(t, 7));
};

/** Room around the plot: the widest label of the vertical axis on the left. */
function frame(width, height, yTexts) {
  const left = Math.min(90, 12 + Math.max(...yTexts.map(textWidth), 10));
  return { left, right: width - 14, top: 26, bottom: height - 44 };
}

/** Grid, ticks and names of both axes; labels that would touch their neighbour are left out. */
function axes(box, x, y, names, formats) {
  const parts = [];
  const yTicks = y.ticks(5);
  tickText(formats.y, yTicks).forEach((text, i) => {
    const at = y(yTicks[i]);
    parts.push(
      draw("line", { class: "grid", x1: box.left, x2: box.right, y1: at, y2: at }),
      draw("text", { class: "tick", x: box.left - 7, y: at + 4, "text-anchor": "end" }, text),
    );
  });
  const xTicks = x.ticks(Math.max(3, Math.floor((box.right - box.left) / 75)));
  let free = -Infinity;
  tickText(formats.x, xTicks).forEach((text, i) => {
    const at = x(xTicks[i]);
    const half = textWidth(text) / 2;
    parts.push(draw("line", { class: "notch", x1: at, x2: at, y1: box.bottom, y2: box.bottom + 5 }));
    const middle = Math.min(at, box.right + 13 - half);
    if (middle - half < free + 4) return;
    free = middle + half;
    const place = { class: "tick", x: middle, y: box.bottom + 18, "text-anchor": "middle" };
    parts.push(draw("text", place, text));
  });
  const { left, right, bottom } = box;
  parts.push(
    draw("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
    draw("text", { class: "name", x: 0, y: 12 }, cut(names.y, right)),
    draw("text", { class: "name", x: right, y: bottom + 38, "text-anchor": "end" },
      cut(names.x, right)),
  );
  return parts;
}

const path = (points) =>
  points.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");

const SHAPES = {
  circle: (x, y, r) => draw("circle", { cx: x, cy: y, r }),
  square: (x, y, r) => draw("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r }),
  triangle: (x, y, r) =>
    draw("path", { d: `M${x} ${y - 1.2 * r}L${x + 1.1 * r} ${y + r}L${x - 1.1 * r} ${y + r}Z` }),
  diamond: (x, y, r) =>
    draw("path", { d: `M${x} ${y - 1.3 * r}l${1.3 * r} ${1.3 * r}l${-1.3 * r} ${1.3 * r}` +
      `l${-1.3 * r} ${-1.3 * r}Z` }),
};
const mark = (shape, x, y, r, attributes) => fill(SHAPES[shape](x, y, r), attributes, []);

/** What the lines and marks mean: the mark itself beside its name. */
function legend(entries) {
  const sample = ({ style, shape, line, block }) =>
    draw(
      "svg",
      { class: "sample", width: 30, height: 14, viewBox: "0 0 30 14", "aria-hidden": "true" },
      block ? draw("rect", { class: block, x: 1, y: 1, width: 28, height: 12 }) : null,
      line ? draw("line", { class: line, x1: 1, x2: 29, y1: 7, y2: 7 }) : null,
      shape ? mark(shape, 15, 7, 4, { class: style }) : null,
    );
  const item = (entry) => make("li", {}, sample(entry), make("span", {}, entry.name));
  return make("ul", { class: "legend" }, entries.map(item));
}

/** A dot with its interval per row, beside its label; `target` is the wanted value. */
function dotRows(rows, { target, targetName, xName, tip, wide = false, step = 30 }) {
  const lows = rows.flatMap((r) => [r.low, r.high, r.value, r.target]).filter(isNumber);
  const least = Math.min(...lows, target ?? 1);
  const most = Math.max(...lows, target ?? 0);
  const pad = Math.max(0.005, 0.08 * (most - least));
  const paint = (width, height) => {
    const longest = Math.max(...rows.map((r) => textWidth(r.label)), 20);
    const left = Math.min(longest + 14, 0.42 * width);
    const box = { left, right: width - 16, top: 24, bottom: height - 44 };
    const x = linearScale(Math.max(0, least - pad), Math.min(1, most + pad), left, box.right);
    const flat = Object.assign(() => 0, { ticks: () => [] });
    const parts = axes(box, x, flat, { x: xName, y: "" }, { x: percent1, y: String });
    if (isNumber(target)) {
      const at = { class: "target", x1: x(target), x2: x(target), y1: 18, y2: box.bottom };
      const end = x(target) > width / 2 ? "end" : "start";
      const side = x(target) + (end === "end" ? 4 : -4);
      parts.push(draw("line", at),
        draw("text", { class: "tick", x: side, y: 12, "text-anchor": end }, targetName));
    }
    rows.forEach((row, i) => parts.push(...dotRow(row, x, box.top + (i + 0.5) * step, left, wide)));
    rows.forEach((row, i) => parts.push(
      draw("rect", { class: "hit", x: 0, y: box.top + i * step, width, height: step, tip: tip(row) }),
    ));
    return parts;
  };
  return { height: 24 + rows.length * step + 44, paint };
}

function dotRow(row, x, y, left, wide) {
  const misses = row.misses;
  const ends = { x1: x(row.low), x2: x(row.high), y1: y, y2: y };
  return [
    draw("text", { class: "label", x: left - 10, y: y + 4, "text-anchor": "end" },
      cut(row.label, left - 12)),
    draw("line", { class: wide ? "range" : misses ? "whisker miss" : "whisker", ...ends }),
    isNumber(row.target)
      ? draw("line", { class: "target", x1: x(row.target), x2: x(row.target), y1: y - 9, y2: y + 9 })
      : null,
    mark(misses ? "diamond" : "circle", x(row.value), y, 5, {
      class: misses ? "dot miss" : "dot",
    }),
  ].filter(Boolean);
}

const percent1 = (share) => `${number(100 * share, 4)}${PERCENT}`;

/** Bars over intervals of a scale. */
function bars(edges, counts, x, y, tip) {
  return counts.map((n, i) => {
    const from = x(edges[i]);
    const wide = Math.max(1, x(edges[i + 1]) - from - 1);
    const attributes = { class: "bar", x: from, y: y(n), width: wide, height: y(0) - y(n) };
    return [
      draw("rect", attributes),
      draw("rect", { class: "hit", x: from, y: y(y.high), width: wide + 1,
        height: y(0) - y(y.high), tip: tip(i) }),
    ];
  }).flat();
}
