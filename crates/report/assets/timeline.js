// The timeline: a lane for each session, a box for each transaction, a bar for each operation over its interval.
const LANE = 92, BAR = 37, CHARACTER = 6.3;
// Text below this share of its size is too small to read.
const SMALLEST = 0.72;
let label = 30, left = 92, head = 0;
// Where a lane begins. On a phone its name stands above its boxes instead of beside them.
const laneTop = (lane) => lane * (LANE + head) + 7;

// The width that a drawing has on the page.
const room = () => Math.max(280, document.querySelector("main").clientWidth - (narrow.matches ? 64 : 90));

// What a bar says, in one line or two: what was done, and the value.
function barLines(op) {
  if (op.text.length <= 12) return [op.text];
  const at = [" = ", ": ", " where "].map((mark) => op.text.indexOf(mark)).filter((at) => at > 0);
  const middle = at.length ? Math.min(...at) + (op.text[Math.min(...at)] === ":" ? 1 : 0) : op.text.indexOf(" ", op.text.length / 2);
  if (middle <= 0) return [cut(op.text, label)];
  return [cut(op.text.slice(0, middle), label), cut(op.text.slice(middle).trim(), label)];
}
const barWidth = (op) => Math.max(...barLines(op).map((line) => Array.from(line).length)) * CHARACTER + 16;

// Where every point in time stands. Elastic: the order is true, and bars are as wide as their words. To scale: widths are true.
function scale(ops, elastic, room) {
  const points = [...new Set(ops.flatMap((op) => op.at))].sort((a, b) => a - b);
  const place = new Map();
  if (elastic) {
    const ending = new Map();
    for (const op of ops) ending.set(op.at[1], [...(ending.get(op.at[1]) || []), op]);
    let x = left;
    for (const point of points) {
      for (const op of ending.get(point) || []) x = Math.max(x, (place.get(op.at[0]) ?? x) + barWidth(op));
      place.set(point, x);
      x += 11;
    }
    return { place, width: x + 30 };
  }
  const [first, last] = [points[0], points[points.length - 1]];
  const width = Math.max(room, 640);
  for (const point of points) place.set(point, left + ((point - first) / Math.max(1, last - first)) * (width - left - 40));
  return { place, width };
}

// Labels are as long as fits into the page; if nothing helps, the timeline scrolls.
function layOutToFit(transactions, timed, options) {
  let plan;
  [left, head] = narrow.matches ? [14, 18] : [92, 0];
  for (label of [30, 26, 22, 18]) {
    plan = layOut(transactions, timed, options);
    if (plan.width <= options.room) return plan;
  }
  label = 22;
  return layOut(transactions, timed, options);
}

// Bars with their places: by interval where there is a clock, otherwise one after the other.
function layOut(transactions, timed, { elastic, room }) {
  const sessions = [...new Set(transactions.map((txn) => txn.session))].sort((a, b) => a - b);
  const clocked = transactions.flatMap((txn) => txn.ops).filter((op) => op.at);
  const axis = timed && clocked.length ? scale(clocked, elastic, room) : null;
  let widest = axis ? axis.width : 0;
  const boxes = [];
  sessions.forEach((session, lane) => {
    let x = left;
    for (const txn of transactions.filter((txn) => txn.session === session)) {
      const bars = txn.ops.map((op) => {
        const from = axis && op.at ? axis.place.get(op.at[0]) : x;
        const to = axis && op.at ? Math.max(axis.place.get(op.at[1]), from + 5) : from + barWidth(op);
        x = to + 6;
        return { op, x: from, width: to - from };
      });
      if (!bars.length) continue;
      const left = Math.min(...bars.map((bar) => bar.x)), right = Math.max(...bars.map((bar) => bar.x + bar.width));
      boxes.push({ txn, lane, bars, x: left - 7, width: right - left + 14 });
      x = right + 26;
      widest = Math.max(widest, right + 30);
    }
  });
  return { sessions, boxes, width: widest, height: laneTop(sessions.length) + 7 };
}

// The transactions that matter: the slice; where there are several cycles, those of this one.
function central(picture, cycle) {
  const slice = picture.transactions.filter((txn) => txn.slice);
  if (picture.cycles.length < 2 || cycle.edges.some((edge) => edge.kind === "visible")) return slice;
  return slice.filter((txn) => cycle.edges.some((edge) => edge.from === txn.txn || edge.to === txn.txn));
}

function drawTimeline(view, picture, cycle, options) {
  const shown = options.near ? picture.transactions : central(picture, cycle);
  const plan = layOutToFit(shown, picture.unit !== null, options);
  // A timeline that is a little too wide is drawn smaller; a much wider one scrolls, unless it is to fit.
  const width = Math.max(plan.width, options.room), wanted = options.room / width;
  const share = wanted >= 1 || (wanted < SMALLEST && !options.fit) ? 1 : wanted;
  const svg = s("svg", { class: "timeline", viewBox: `0 0 ${round(width)} ${plan.height}`, width: round(width * share),
    height: round(plan.height * share), preserveAspectRatio: "xMinYMin", role: "group", "aria-label": "What each session did, over time" });
  svg.append(s("defs", {}, ["rw", "wr", "ww", "order"].map((kind) => arrowHead(`time-${kind}`))));
  plan.sessions.forEach((session, lane) => svg.append(
    s("rect", { class: lane % 2 ? "lane odd" : "lane", x: 0, y: laneTop(lane), width: "100%", height: LANE + head }),
    s("text", { class: "session", x: head ? 8 : 12, y: laneTop(lane) + (head ? 17 : 51) }, cut(`session ${session}`, 12))));
  const places = new Map();
  svg.append(...plan.boxes.map((box) => drawBox(view, picture, box, places)));
  for (const [index, edge] of (cycle ? cycle.edges : []).entries()) svg.append(drawLink(view, edge, index, places));
  return svg;
}

function drawBox(view, picture, box, places) {
  const y = laneTop(box.lane) + 6 + head;
  const { txn } = box;
  const blamed = (op) => picture.blamed.some((place) => place.txn === txn.txn && place.op === op.op);
  const name = `T${txn.txn}${txn.outcome === "committed" ? "" : " " + (txn.outcome === "unknown" ? "outcome unknown" : txn.outcome)}`;
  const group = s("g", { class: `txn ${txn.outcome}${txn.slice ? " slice" : ""}`, "data-txn": txn.txn, ...pressable(() => view.select(txn.txn)),
    "aria-label": `Transaction T${txn.txn}, session ${txn.session}, ${txn.outcome}: ${cut(txn.ops.map((op) => op.text).join("; "), 300)}` });
  group.append(s("rect", { class: "box", x: round(box.x), y, width: round(box.width), height: LANE - 14, rx: 9 }),
    s("text", { class: "name", x: round(box.x + 9), y: y + 19 }, name));
  for (const bar of box.bars) {
    const top = y + 28;
    places.set(`${txn.txn}/${bar.op.op}`, { x: bar.x, width: bar.width, y: top });
    const lines = barLines(bar.op);
    const fits = bar.width >= barWidth(bar.op) - 8;
    group.append(s("g", { class: `bar ${bar.op.kind}${blamed(bar.op) ? " blamed" : ""}` },
      s("title", {}, bar.op.text + interval(picture, bar.op)),
      s("rect", { x: round(bar.x + 0.8), y: top, width: round(Math.max(bar.width - 1.6, 3)), height: BAR, rx: 5 }),
      fits ? lines.map((line, i) => s("text", { x: round(bar.x + 8), y: top + (lines.length === 1 ? 22.5 : 15.5 + 14 * i) }, line)) : null));
  }
  return group;
}

const interval = (picture, op) => (op.at && picture.unit ? ` [${op.at[0]}, ${op.at[1]}]${picture.unit === "index" ? "" : " " + picture.unit}` : "");

// An arrow from operation to operation.
function drawLink(view, edge, index, places) {
  const from = places.get(`${edge.from}/${edge.from_op}`), to = places.get(`${edge.to}/${edge.to_op}`);
  if (!from || !to) return s("g");
  const down = to.y >= from.y ? 1 : -1;
  const ax = from.x + from.width / 2, bx = to.x + to.width / 2;
  const ay = from.y + (down > 0 ? BAR : 0), by = to.y + (down > 0 ? -1 : BAR + 1);
  const same = Math.abs(to.y - from.y) < 1;
  const bend = same ? 34 : Math.abs(by - ay) * 0.5;
  const path = same
    ? `M${round(ax)} ${round(from.y + BAR)}C${round(ax)} ${round(from.y + BAR + bend)} ${round(bx)} ${round(to.y + BAR + bend)} ${round(bx)} ${round(to.y + BAR + 2)}`
    : `M${round(ax)} ${round(ay)}C${round(ax)} ${round(ay + down * bend)} ${round(bx)} ${round(by - down * bend)} ${round(bx)} ${round(by)}`;
  const kind = kindClass(edge.kind);
  return s("g", { class: `link ${kind}`, "data-edge": index, onpointerenter: () => view.showEdge(index), onpointerleave: () => view.showEdge(null) },
    s("title", {}, edge.reason),
    s("path", { class: "wide", d: path }),
    s("path", { class: "line", d: path, "marker-end": `url(#time-${kind})` }));
}
