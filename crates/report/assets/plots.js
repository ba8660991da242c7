// Curves over time, with violations marked.
const PLOT = { width: 520, height: 170, left: 52, right: 12, top: 14, bottom: 26 };

function drawPlots(series) {
  const names = [...new Set(series.curves.map((curve) => curve.plot))];
  return h("div", { class: "plots" }, names.map((name) => drawPlot(series, name, series.curves.filter((curve) => curve.plot === name))));
}

function niceTop(most) {
  if (!(most > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * unit).find((top) => top >= most * 1.0001) || most;
}

function drawPlot(series, name, curves) {
  const values = curves.flatMap((curve) => curve.values).filter((value) => value !== null);
  if (!values.length) return null;
  const { width, height, left, right, top, bottom } = PLOT;
  const limit = curves[0].unit === "%" ? 100 : Infinity;
  const most = Math.min(niceTop(Math.max(...values)), limit), last = series.seconds[series.seconds.length - 1] || 1;
  const x = (time) => left + (time / last) * (width - left - right), y = (value) => height - bottom - (value / most) * (height - top - bottom);
  const unit = curves[0].unit;
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", "aria-label": summary(name, curves, series.marks.length) });
  for (const share of [0, 0.5, 1]) {
    svg.append(s("line", { class: "grid", x1: left, x2: width - right, y1: y(most * share), y2: y(most * share) }),
      s("text", { class: "tick", x: left - 6, y: y(most * share) + 4, "text-anchor": "end" }, short(most * share)));
  }
  for (const share of [0, 0.5, 1]) svg.append(s("text", { class: "tick", x: x(last * share), y: height - 8, "text-anchor": ["start", "middle", "end"][share * 2] }, share ? seconds(last * share) : "0"));
  for (const mark of series.marks) {
    const at = Math.min(x(mark.seconds), width - right);
    svg.append(s("g", { class: "mark" }, s("title", {}, `${mark.label} at ${seconds(mark.seconds)}`),
      s("line", { x1: at, x2: at, y1: top - 4, y2: height - bottom }), s("path", { d: `M${at - 5} ${top - 10}h10l-5 8z` })));
  }
  curves.forEach((curve, i) => svg.append(s("path", { class: `curve c${i}`, d: curvePath(series.seconds, curve.values, x, y) })));
  const readout = h("p", { class: "readout", "aria-hidden": true }, "\u00a0");
  const cursor = s("line", { class: "cursor", y1: top, y2: height - bottom, x1: -9, x2: -9 });
  svg.append(cursor);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const time = (((event.clientX - box.left) / box.width) * width - left) / (width - left - right) * last;
    const at = series.seconds.reduce((best, value, i) => (Math.abs(value - time) < Math.abs(series.seconds[best] - time) ? i : best), 0);
    cursor.setAttribute("x1", x(series.seconds[at]));
    cursor.setAttribute("x2", x(series.seconds[at]));
    readout.textContent = `${seconds(series.seconds[at])}: ` + curves.map((curve) => `${curve.name} ${curve.values[at] === null ? "–" : short(curve.values[at])}${curve.unit}`).join(", ");
  });
  return h("figure", {}, h("figcaption", {}, h("b", {}, name), ` in ${unit}`,
    curves.length > 1 ? h("span", { class: "legend" }, curves.map((curve, i) => h("span", { class: `c${i}` }, curve.name))) : null), svg, readout);
}

// Gaps where there is no value; a single point becomes a dot.
function curvePath(times, values, x, y) {
  let path = "", open = false;
  values.forEach((value, i) => {
    if (value === null) { open = false; return; }
    path += `${open ? "L" : "M"}${round(x(times[i]))} ${round(y(value))}${open ? "" : "h0.1"}`;
    open = true;
  });
  return path;
}

function summary(name, curves, marks) {
  const told = curves.map((curve) => {
    const values = curve.values.filter((value) => value !== null);
    if (!values.length) return `${curve.name}: nothing`;
    return `${curve.name}: from ${short(Math.min(...values))} to ${short(Math.max(...values))} ${curve.unit}`;
  });
  return `${name}. ${told.join(". ")}. ${marks ? plural(marks, "violation") + " marked." : ""}`;
}
