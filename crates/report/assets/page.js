// The page: made from the data, and made again where live data changed.
const state = { anomaly: 0, cycle: 0, txn: null, near: false, elastic: true, query: "" };
const view = { select, showEdge };
let data = parse(document.getElementById("data").textContent);

// Whole numbers that JavaScript cannot hold stay as they were written.
function parse(text) {
  return JSON.parse(text, (key, value, context) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context ? context.source : value);
}

const details = () => data.report.report || { cases: [], checks: [], again: {}, headline: "", promise: "", subject: "" };
const current = () => details().cases[state.anomaly];

const BREACH = "The database does not keep its promise in the way that its profile describes. This is no violation of a level.";

const WORDS = {
  holds: "This could have happened under the promised level, and there is a proof of it.",
  clean: "Nothing was found that contradicts the promised level. That is no proof.",
  violated: "This cannot have happened under the promised level.",
  unknown: "There is no answer.",
  running: "The database is being driven, and what its clients see is recorded.",
};

function banner() {
  const { report } = data, more = details();
  const facts = [
    report.engine ? `engine ${report.engine}` : null,
    report.stats.transactions ? plural(report.stats.transactions, "transaction") : null,
    report.stats.operations ? plural(report.stats.operations, "operation") : null,
    report.stats.sessions ? plural(report.stats.sessions, "session") : null,
    report.verdict === "running" ? null : `checked in ${seconds(report.stats.check_seconds)}`,
    report.stats.peak_rss_bytes ? `${short(report.stats.peak_rss_bytes)}B of memory` : null,
  ].filter(Boolean);
  const audited = { accepted: "audited: accepted", rejected: "audited: rejected", skipped: "not audited" }[more.audited];
  return h("header", { class: `banner ${report.verdict}`, role: "banner" },
    h("p", { class: "brand" }, "margay", h("button", { class: "theme", type: "button", onclick: theme, "aria-label": "Switch between light and dark" }, "◐")),
    h("h1", {}, h("span", { class: "word" }, report.verdict), h("span", { class: "headline" }, more.headline)),
    h("p", { class: "plainly" }, (more.claim && more.claim.about === "mechanisms" ? BREACH : WORDS[report.verdict]) || "", report.reason ? ` ${report.reason}.` : ""),
    more.promise ? h("p", { class: "promise" }, h("b", {}, `${report.level} promises: `), more.promise,
      more.real_time ? " In addition, the order of real time was assumed." : "") : null,
    h("p", { class: "facts" }, facts.join(" · "), more.proof ? ` · proof: ${more.proof}${audited ? ", " + audited : ""}` : ""),
    more.claim ? more.claim.words.map((words) => h("p", { class: "facts" }, words)) : null);
}

function theme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}

// The list of what was found.
function findings() {
  const all = data.report.anomalies;
  if (all.length < 2) return null;
  const list = h("ol", { class: "found" }, all.map((anomaly, i) => {
    const named = details().cases[i];
    return h("li", {}, h("button", { type: "button", "data-anomaly": i, "aria-pressed": i === state.anomaly, onclick: () => open(i) },
      h("b", {}, named ? named.title : anomaly.name), " ", h("code", {}, anomaly.name), " ",
      h("span", {}, cut(anomaly.transactions.map((txn) => `T${txn}`).join(", "), 60))));
  }));
  const search = all.length > 5 ? h("input", { type: "search", id: "find-anomaly", placeholder: "Search: name or T7", "aria-label": "Search what was found",
    oninput: (event) => filterList(list, event.target.value) }) : null;
  return h("nav", { "aria-label": "What was found" }, h("h2", {}, `${plural(all.length + data.unlisted, "anomaly").replace("anomalys", "anomalies")} found`), search, list,
    data.unlisted ? h("p", { class: "note" }, `${data.unlisted} more are not listed here; the JSON has all of them.`) : null);
}

function filterList(list, query) {
  const wanted = query.trim().toLowerCase();
  for (const item of list.children) item.hidden = !item.textContent.toLowerCase().includes(wanted);
}

function open(index) {
  Object.assign(state, { anomaly: index, cycle: 0, txn: null, query: "" });
  for (const button of document.querySelectorAll("[data-anomaly]")) button.setAttribute("aria-pressed", Number(button.dataset.anomaly) === index);
  refresh("case", true);
}

// One anomaly, for someone who has never heard of it.
function caseSection() {
  const anomaly = data.report.anomalies[state.anomaly], told = current();
  if (!anomaly) return null;
  if (!told) return h("section", { class: "case" }, h("h2", {}, h("code", {}, anomaly.name)), h("pre", {}, anomaly.explanation));
  const picture = told.picture, cycle = picture && picture.cycles[state.cycle];
  const txns = anomaly.transactions.length ? anomaly.transactions : [];
  return h("section", { class: "case", "aria-label": told.title },
    h("h2", {}, told.title, " ", h("code", {}, anomaly.name)),
    h("p", { class: "meaning" }, told.meaning),
    h("p", { class: "txns" }, "Here, in ", txns.slice(0, 30).map((txn, i) => [i ? ", " : "", h("button", { type: "button", class: "chip", onclick: () => select(txn) }, `T${txn}`)]),
      txns.length > 30 ? ` and ${txns.length - 30} more` : "", ":"),
    picture && picture.cycles.length ? cycleFigure(picture, told) : steps(told),
    h("div", { class: "why" }, h("h3", {}, "Why this is impossible"), h("p", {}, told.impossible)),
    picture ? timelineFigure(picture, cycle) : h("p", { class: "note" }, "The picture of this one would have been too large."),
    picture ? h("div", { id: "ops", "aria-live": "polite" }, operations(picture)) : null,
    picture && picture.objects.length ? versionsFigure(picture) : null,
    levels(told));
}

const steps = (told) => h("ol", { class: "steps" }, told.steps.map((step) => h("li", {}, step)));

function cycleFigure(picture, told) {
  const drawing = data.drawings[state.anomaly][state.cycle], cycle = picture.cycles[state.cycle];
  const tabs = picture.cycles.length > 1 ? h("div", { class: "tabs", role: "group", "aria-label": "Cycles" },
    picture.cycles.map((_, i) => h("button", { type: "button", "aria-pressed": i === state.cycle, onclick: () => { state.cycle = i; refresh("case", true); } }, `Cycle ${i + 1}`))) : null;
  const list = h("ol", { class: "edges" }, cycle.edges.map((edge, i) =>
    h("li", { class: kindClass(edge.kind), "data-edge": i, tabindex: 0, ...pointable(() => showEdge(i), () => showEdge(null)) },
      h("span", { class: "who" }, `T${edge.from} before T${edge.to}:`), " ", edge.reason.split(": ").slice(1).join(": ") || edge.reason)));
  return h("figure", { class: "graph" }, h("h3", {}, cycle.open ? "What depends on what" : "Who must come before whom"), tabs,
    drawing && drawing.cards.length ? h("div", { class: "scroll" }, drawCycle(view, picture, cycle, drawing, state.cycle)) : null,
    h("p", { id: "reason", class: "reason", "aria-live": "polite" }, hint()),
    list);
}

const hint = () => "Each arrow means “must come before”. Point at one to see why; click a transaction to see its operations.";

function showEdge(index) {
  const picture = current() && current().picture;
  const edge = picture && index !== null ? picture.cycles[state.cycle].edges[index] : null;
  const box = document.getElementById("reason");
  if (box) {
    box.textContent = edge ? edge.reason : hint();
    box.classList.toggle("on", Boolean(edge));
  }
  for (const element of document.querySelectorAll("[data-edge]")) element.classList.toggle("lit", Boolean(edge) && Number(element.dataset.edge) === index);
  for (const element of document.querySelectorAll("svg [data-txn]")) {
    element.classList.toggle("lit", Boolean(edge) && [String(edge.from), String(edge.to)].includes(element.dataset.txn));
  }
}

function timelineFigure(picture, cycle) {
  const near = picture.transactions.length - central(picture, cycle).length;
  const switchTo = (change) => () => { Object.assign(state, change); refresh("case", true); };
  const untimed = picture.unit === null;
  const origin = picture.origin ? ` Times count from ${picture.origin} ${picture.unit}.` : "";
  const note = untimed ? "The history has no clock: only the order within each session is known."
    : (state.elastic ? "Bars begin and end in the true order; their widths follow their words." : "Bars are as wide as their operations took.") + origin;
  return h("figure", { class: "time" }, h("h3", {}, "What the clients did"),
    h("div", { class: "tools" },
      untimed ? null : h("button", { type: "button", id: "scale", "aria-pressed": !state.elastic, onclick: switchTo({ elastic: !state.elastic }) }, "To scale"),
      near ? h("button", { type: "button", id: "near", "aria-pressed": state.near, onclick: switchTo({ near: !state.near }) }, `Show ${plural(near, "transaction")} nearby`) : null,
      h("input", { type: "search", id: "search", placeholder: "Search operations  ( / )", "aria-label": "Search operations, objects and values", value: state.query,
        oninput: (event) => { state.query = event.target.value; search(); } }),
      h("span", { id: "hits", role: "status" })),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Timeline" }, drawTimeline(view, picture, cycle, state)),
    h("p", { class: "note" }, note, picture.left_out.length ? ` Not shown: ${picture.left_out.join(", ")}.` : ""));
}

function matches(txn) {
  const wanted = state.query.trim().toLowerCase();
  return !wanted || `T${txn.txn} session ${txn.session} ${txn.outcome} ${txn.ops.map((op) => op.text).join(" ")}`.toLowerCase().includes(wanted);
}

function search() {
  const picture = current() && current().picture;
  if (!picture) return;
  const found = picture.transactions.filter(matches), labels = new Set(found.map((txn) => String(txn.txn)));
  for (const element of document.querySelectorAll("svg.timeline [data-txn]")) element.classList.toggle("dim", !labels.has(element.dataset.txn));
  const hits = document.getElementById("hits");
  hits.textContent = state.query.trim() ? `${found.length} of ${plural(picture.transactions.length, "transaction")} match` : "";
  document.getElementById("ops").replaceChildren(operations(picture));
}

function select(txn) {
  state.txn = state.txn === txn ? null : txn;
  const picture = current() && current().picture;
  if (!picture) return;
  document.getElementById("ops").replaceChildren(operations(picture));
  mark();
}

function mark() {
  for (const element of document.querySelectorAll("svg [data-txn]")) element.classList.toggle("chosen", element.dataset.txn === String(state.txn));
}

// The operations of the chosen transaction, or of all that match the search.
function operations(picture) {
  const chosen = picture.transactions.filter((txn) => (state.txn === null ? Boolean(state.query.trim()) && matches(txn) : txn.txn === state.txn)).slice(0, 12);
  if (!chosen.length) return h("p", { class: "note" }, state.query.trim() ? "No operation matches." : "Click a transaction to see its operations here.");
  return h("div", { class: "opened" }, chosen.map((txn) => h("article", { "data-opened": txn.txn },
    h("h4", {}, `T${txn.txn}`, h("span", { class: `outcome ${txn.outcome}` }, txn.outcome), h("span", {}, `session ${txn.session}`), txn.slice ? null : h("span", {}, "nearby")),
    h("ol", { start: 0 }, txn.ops.map((op) => h("li", { class: important(picture, txn, op) ? "important" : "", value: op.op }, op.text,
      op.at ? h("small", {}, interval(picture, op)) : null))),
    txn.left_out ? h("p", { class: "note" }, `${plural(txn.left_out, "operation")} left out.`) : null)));
}

function important(picture, txn, op) {
  const cycle = picture.cycles[state.cycle];
  const ends = cycle ? cycle.edges.some((edge) => (edge.from === txn.txn && edge.from_op === op.op) || (edge.to === txn.txn && edge.to_op === op.op)) : false;
  return ends || picture.blamed.some((place) => place.txn === txn.txn && place.op === op.op);
}

function versionsFigure(picture) {
  return h("figure", { class: "versions" }, h("h3", {}, "The versions of what they touched"), picture.objects.map((object) =>
    h("div", { class: "object" },
      h("h4", {}, h("code", {}, cut(object.name, 80)), h("small", {}, object.versions.length > 2 ? object.order : "")),
      h("ol", { class: "chain" }, object.versions.map((version) => h("li", { class: version.outcome },
        h("b", {}, version.by === null ? "initially" : `T${version.by}`), version.outcome === "committed" ? null : h("em", {}, version.outcome),
        h("code", {}, cut(version.value, 90)),
        version.readers.length ? h("small", {}, "seen by ", version.readers.slice(0, 8).map((txn) => `T${txn}`).join(", ")) : h("small", {}, "seen by nobody here")))),
      object.left_out ? h("p", { class: "note" }, `${plural(object.left_out, "version")} left out.`) : null)));
}

function levels(told) {
  if (!told.breaks.length && !told.allowed.length) return h("p", { class: "note" }, "This contradicts a mechanism of the database, not a level.");
  const chips = (names, kind) => h("ul", { class: `levels ${kind}` }, names.map((name) => h("li", { class: name === data.report.level ? "asked" : "" }, name)));
  return h("div", { class: "which" }, h("h3", {}, "Which levels this breaks"),
    h("p", {}, "Impossible under:"), chips(told.breaks, "breaks"),
    told.allowed.length ? [h("p", {}, "Not ruled out by this alone:"), chips(told.allowed, "allowed")] : h("p", {}, "It is impossible under every level."),
    (data.report.not || []).length ? h("p", { class: "note" }, `All that was found together rules out, among Elle's models: ${data.report.not.join(", ")}`,
      data.report.also_not.length ? `; and with them ${data.report.also_not.join(", ")}.` : ".") : null);
}

function again() {
  const more = details().again || {}, { run } = data.report;
  const rows = [["Command", more.command], ["Seed", more.seed], ["Audit", more.audit], ["The same run", run && run.again]].filter((row) => row[1] !== null && row[1] !== undefined && row[1] !== "");
  if (!rows.length) return null;
  return h("section", { class: "again" }, h("h2", {}, "Do it again"), h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, h("code", {}, value))])));
}

function runSection() {
  const { run } = data.report;
  if (!run) return null;
  const rows = [["Database", run.dbms], ["Asked for", run.level], ["Workload", run.workload], ["Clients", run.clients], ["Committed", run.committed], ["Aborted", run.aborted],
    ["Unknown outcome", run.unknown], ["Time", seconds(run.seconds)]];
  return h("section", { class: "run" }, h("h2", {}, "The run"), h("dl", {}, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, typeof value === "number" ? value.toLocaleString("en") : value)))),
    run.dropped.length ? h("ul", {}, run.dropped.map((why) => h("li", {}, `gave up before its time: ${why}`))) : null);
}

function checks() {
  const all = details().checks || [];
  if (!all.length) return null;
  return h("section", { class: "checks" }, h("h2", {}, "What each engine said"), h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, ["Engine", "Level", "Verdict", "Time", "What it says"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, all.map((check) => h("tr", {}, h("th", { scope: "row" }, check.engine), h("td", {}, check.level), h("td", { class: check.verdict }, check.verdict),
      h("td", {}, seconds(check.seconds)), h("td", {}, check.reason || "")))))));
}

function statistics() {
  const { series } = details();
  if (!series || !series.seconds.length) return null;
  return h("section", { class: "statistics" }, h("h2", {}, "Over time"),
    series.marks.length ? h("p", { class: "note" }, h("span", { class: "flag" }, "▼"), ` ${plural(series.marks.length, "violation")}, where its last transaction ended.`) : null, drawPlots(series));
}

// The parts of the page with what each is made from; a part is made again only when that changed.
const PARTS = {
  banner: [banner, () => ({ ...data.report, anomalies: 0, report: { ...details(), cases: 0, checks: 0, series: 0 } })],
  findings: [findings, () => [data.report.anomalies, details().cases.map((told) => told.title)]],
  case: [caseSection, () => [data.report.anomalies[state.anomaly], current()]],
  checks: [checks, () => details().checks],
  run: [runSection, () => data.report.run],
  statistics: [statistics, () => details().series],
  again: [again, () => [details().again, data.report.run && data.report.run.again]],
};
const made = {};

function refresh(name, force) {
  const [make, from] = PARTS[name];
  const key = JSON.stringify(from()) || "";
  if (!force && made[name] === key) return;
  made[name] = key;
  document.getElementById(`part-${name}`).replaceChildren(...[make()].filter(Boolean));
  if (name === "case") { search(); mark(); }
}

document.getElementById("page").append(
  h("div", { id: "part-banner" }),
  h("main", {}, Object.keys(PARTS).filter((name) => name !== "banner").map((name) => h("div", { id: `part-${name}` }))));
Object.keys(PARTS).forEach((name) => refresh(name, true));

document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement;
  if (event.key === "Escape") {
    if (typing) { event.target.value = ""; event.target.dispatchEvent(new Event("input")); event.target.blur(); }
    else if (state.txn !== null) select(state.txn);
  } else if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const field = document.getElementById("search");
    const count = data.report.anomalies.length;
    if (event.key === "/" && field) { event.preventDefault(); field.focus(); }
    else if (event.key === "n" && count > 1) open((state.anomaly + 1) % count);
    else if (event.key === "p" && count > 1) open((state.anomaly + count - 1) % count);
  }
});

// The live page: what the server sends replaces what is shown. A browser connects again by itself, also after a reload.
if (document.documentElement.hasAttribute("data-live")) {
  const events = new EventSource("events" + location.search);
  const follow = (event) => {
    data = parse(event.data);
    document.title = details().headline;
    Object.keys(PARTS).forEach((name) => refresh(name, false));
  };
  events.addEventListener("report", follow);
  events.addEventListener("end", (event) => {
    follow(event);
    events.close();
    document.documentElement.removeAttribute("data-live");
  });
}
