// Time axes, and what happened on them.
const DAY = 86_400_000;
const NOON = DAY / 2; // where the value of a day is drawn
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (n) => String(n).padStart(2, "0");

function dayText(at) {
  const day = new Date(at);
  return `${day.getUTCDate()}\u00a0${MONTHS[day.getUTCMonth()]}\u00a0${day.getUTCFullYear()}`;
}

function timeText(at) {
  if (!isNumber(at)) return NO_NUMBER;
  const time = new Date(at);
  return `${dayText(at)}, ${two(time.getUTCHours())}:${two(time.getUTCMinutes())}\u00a0UTC`;
}

/** Moments so many days apart; weeks begin on Monday. */
function dayTicks(low, high, step) {
  const first = step % 7 === 0 ? 4 * DAY : 0; // 5 January 1970 was a Monday
  const ticks = [];
  let at = first + Math.ceil((low - first) / (step * DAY)) * step * DAY;
  for (; at <= high; at += step * DAY) ticks.push(at);
  return ticks;
}

function monthTicks(low, high, step) {
  const start = new Date(low);
  const ticks = [];
  let month = Math.floor((12 * start.getUTCFullYear() + start.getUTCMonth()) / step) * step;
  for (let at = 0; at <= high; month += step) {
    at = Date.UTC(Math.floor(month / 12), month % 12, 1);
    if (at >= low && at <= high) ticks.push(at);
  }
  return ticks;
}

const TIME_STEPS = [
  ...[1, 2, 7, 14].map((days) => ({ of: (low, high) => dayTicks(low, high, days), size: days })),
  ...[1, 2, 3, 6, 12, 24, 60, 120].map((months) =>
    ({ of: (low, high) => monthTicks(low, high, months), size: 30.4 * months, isMonths: true })),
];

/** A scale of moments; a single day has some room on either side. */
function timeScale([first, last], from, to) {
  const pad = Math.max(0, 2 * DAY - (last - first)) / 2;
  const [low, high] = [first - pad, last + pad];
  const days = (high - low) / DAY;
  const step = (n) => TIME_STEPS.find(({ size }) => days / size <= n) ?? TIME_STEPS.at(-1);
  return Object.assign(linearScale(low, high, from, to), {
    ticks: (n) => step(n).of(low, high),
    text: (at) => {
      const day = new Date(at);
      const wanted = Math.max(3, Math.floor((to - from) / 75));
      const month = MONTHS[day.getUTCMonth()];
      return step(wanted).isMonths ? `${month}\u00a0${day.getUTCFullYear()}`
        : `${day.getUTCDate()}\u00a0${month}`;
    },
  });
}

/** Room around a chart over time, mostly the same, so that what stands below each other is at one time. */
function timeFrame(width, height, yTexts) {
  const box = frame(width, height, yTexts);
  return { ...box, left: Math.max(56, box.left), bottom: height - 26 };
}

// Kinds of events are texts of the data, so they are looked up in a Map.
const EVENTS = new Map([
  ["deploy", "square"], ["reload", "circle"], ["recalibration", "diamond"], ["forget", "triangle"],
]);
const isAlarm = (event) => event.kind === "alarm";
const eventShape = (kind) => EVENTS.get(kind) ?? "circle";
const eventStyle = (event) =>
  isAlarm(event) ? "alarm-mark" : EVENTS.has(event.kind) ? `event ${event.kind}` : "event";
const eventText = (event) =>
  `${event.kind}${event.detail ? `: ${event.detail}` : ""} (${timeText(event.at)})`;

/** Events as marks on the axis of time, those that would cover each other once. */
function eventMarks(events, x, box) {
  const seen = new Set();
  return events.flatMap((event) => {
    const at = x(event.at);
    const key = `${event.kind} ${Math.round(at / 5)}`;
    if (at < box.left - 1 || at > box.right + 1 || seen.has(key)) return [];
    seen.add(key);
    const shape = isAlarm(event) ? "triangle" : eventShape(event.kind);
    return [
      draw("line", { class: isAlarm(event) ? "alarm-time" : "event-time", x1: at, x2: at,
        y1: box.top, y2: box.bottom }),
      mark(shape, at, box.bottom, 4, { class: eventStyle(event), tip: eventText(event) }),
    ];
  });
}

/** What the marks on the axes of time mean: the kinds that are there. */
function eventLegend(events) {
  const kinds = [...new Map(events.map((event) => [event.kind, event])).values()];
  return kinds.length ? legend(kinds.map((event) => ({ name: event.kind, style: eventStyle(event),
    shape: isAlarm(event) ? "triangle" : eventShape(event.kind) }))) : null;
}

/** Strips that the pointer finds, one per point of a line. */
function strips(at, x, box, tip) {
  const places = at.map((t) => x(t + NOON));
  const ends = places.map((p, i) => (i + 1 < places.length ? (p + places[i + 1]) / 2 : box.right));
  return places.map((_, i) => {
    const from = i ? ends[i - 1] : box.left;
    return draw("rect", { class: "hit", x: from, y: box.top, width: Math.max(0, ends[i] - from),
      height: box.bottom - box.top - 5, tip: tip(i) });
  });
}
