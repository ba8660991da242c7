// The cycle: cards of transactions and arrows between them, laid out by Margay.
function drawCycle(view, picture, cycle, drawing, number) {
  const kinds = [...new Set(cycle.edges.map((edge) => edge.kind))];
  const told = cycle.edges.map((edge) => edge.reason).join(" ");
  const svg = s("svg", {
    class: "cycle", viewBox: `0 0 ${round(drawing.width)} ${round(drawing.height)}`, role: "group",
    "aria-label": `The transactions and why each must come before the next. ${cut(told, 600)}`,
  });
  svg.style.maxWidth = `${round(drawing.width)}px`;
  svg.append(s("defs", {}, kinds.map((kind) => arrowHead(`cycle${number}-${kindClass(kind)}`))));
  const arrows = cycle.edges.map((edge, i) => drawArrow(view, edge, drawing.arrows[i], i, number));
  svg.append(...arrows.map((arrow) => arrow.line), ...drawing.cards.map((card) => drawCard(view, picture, card)),
    ...arrows.map((arrow) => arrow.label));
  return svg;
}

const kindClass = (kind) => (["rw", "wr", "ww"].includes(kind) ? kind : "order");

function drawArrow(view, edge, arrow, index, number) {
  const [[ax, ay], [bx, by], [cx, cy]] = arrow.points;
  const path = `M${round(ax)} ${round(ay)}Q${round(bx)} ${round(by)} ${round(cx)} ${round(cy)}`;
  const kind = kindClass(edge.kind);
  const marks = { "data-edge": index };
  const point = pointable(() => view.showEdge(index), () => view.showEdge(null));
  const line = s("g", { class: `arrow ${kind}`, ...marks, onpointerenter: point.onpointerenter, onpointerleave: point.onpointerleave },
    s("path", { class: "wide", d: path }),
    s("path", { class: "line", d: path, "marker-end": `url(#cycle${number}-${kind})` }));
  const width = Array.from(arrow.label).length * 7 + 24;
  const [x, y] = arrow.at;
  const label = s("g", { class: `pill ${kind}`, ...marks, ...point, tabindex: 0, role: "img", "aria-label": edge.reason },
    s("title", {}, edge.reason),
    s("rect", { x: round(x - width / 2), y: round(y - 13), width: round(width), height: 26, rx: 13 }),
    s("text", { x: round(x), y: round(y + 4.5), "text-anchor": "middle" }, arrow.label));
  return { line, label };
}

function drawCard(view, picture, card) {
  const txn = picture.transactions.find((txn) => txn.txn === card.txn);
  const about = txn ? `session ${txn.session}, ${txn.outcome}` : "";
  return s("g", { class: "card", "data-txn": card.txn, ...pressable(() => view.select(card.txn)), "aria-label": `Transaction T${card.txn}, ${about}. ${card.lines.join("; ")}` },
    s("rect", { x: round(card.x), y: round(card.y), width: card.width, height: card.height, rx: 10 }),
    s("text", { class: "name", x: round(card.x + 13), y: round(card.y + 21) }, `T${card.txn}`),
    s("text", { class: "about", x: round(card.x + card.width - 12), y: round(card.y + 21), "text-anchor": "end" }, cut(about, 26)),
    card.lines.map((line, i) => s("text", { class: "op", x: round(card.x + 13), y: round(card.y + 42 + 17 * i) }, line)));
}
