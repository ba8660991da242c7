// The page: made from the data, and made again where live data changed.
const state = { anomaly: 0, cycle: 0, txn: null, near: false, elastic: true, fit: false, versions: false, query: "" };
const view = { select, showEdge };
const narrow = matchMedia("(max-width: 40rem)");
let data = parse(document.getElementById("data").textContent);

// Whole numbers that JavaScript cannot hold stay as they were written.
function parse(text) {
  return JSON.parse(text, (key, value, context) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context ? context.source : value);
}

const details = () => data.report.report || { cases: [], checks: [], again: {}, headline: "", promise: "", subject: "" };
const current = () => details().cases[state.anomaly];

const BREACH = "The database does not work in the way that its profile describes. This is not a violation of a level.";

// What a verdict means, about the level that the words `under` name.
const MEANINGS = {
  holds: (under) => `This history is possible under ${under}, and Margay has a proof.`,
  clean: (under) => `Nothing in this history contradicts ${under}. That is not a proof.`,
  violated: (under) => `This history is impossible under ${under}.`,
  unknown: () => "No engine could decide.",
  running: () => "Clients use the database, and Margay records and verifies what they see.",
};

// A run verifies the promise of the database, or a level that only the user claims.
function levelWords() {
  if (details().beyond) return "the claimed level";
  return data.report.run ? "the promised level" : "this level";
}

function title() {
  const { report } = data, { run } = report, more = details();
  if (!run) return more.headline;
  const database = `${run.dbms} at ${run.level}`;
  const level = `${more.beyond ? "the claimed level " : ""}${report.level}`;
  const about = more.claim && more.claim.about === "mechanisms";
  if (report.verdict === "running") return `${database}, verified against ${level}`;
  return `${database}: ${about ? more.headline : { holds: `possible under ${level}`, clean: `nothing contradicts ${level}`,
    violated: `impossible under ${level}`, unknown: `possible under ${level}?` }[report.verdict]}`;
}

function facts() {
  const { report } = data, more = details();
  const audited = { accepted: "audited: accepted", rejected: "audited: rejected", skipped: "not audited" }[more.audited];
  return [
    more.date || null,
    report.engine ? `engine ${report.engine}` : null,
    report.stats.transactions ? plural(report.stats.transactions, "transaction") : null,
    report.stats.operations ? plural(report.stats.operations, "operation") : null,
    report.stats.sessions ? plural(report.stats.sessions, "session") : null,
    report.verdict === "running" ? null : `checked in ${seconds(report.stats.check_seconds)}`,
    report.stats.peak_rss_bytes ? `${short(report.stats.peak_rss_bytes).replace(/[A-Za-z]?$/, " $&")}B of memory` : null,
    more.proof ? `proof: ${more.proof}${audited ? ", " + audited : ""}` : null,
  ].filter(Boolean).join(" · ");
}

function banner() {
  const { report } = data, more = details();
  const meaning = more.claim && more.claim.about === "mechanisms" ? BREACH : MEANINGS[report.verdict](levelWords());
  return h("header", { class: `banner ${report.verdict}`, role: "banner" },
    h("p", { class: "brand" }, "margay", h("button", { class: "theme", type: "button", onclick: theme, "aria-label": "Switch between light and dark" }, "◐")),
    h("h1", {}, h("span", { class: "word" }, report.verdict), h("span", { class: "headline" }, title())),
    h("p", { class: "plainly" }, meaning, report.reason ? ` ${report.reason}.` : ""),
    more.beyond ? h("p", { class: "beyond" }, more.beyond) : null,
    more.promise ? h("p", { class: "promise" }, h("b", {}, `${report.level}: `), more.promise,
      more.real_time ? " In addition, the order of real time was assumed." : "") : null,
    report.verdict === "running" ? target() : null,
    h("p", { class: "facts" }, facts()),
    more.claim ? more.claim.words.map((words) => h("p", { class: "facts" }, words)) : null);
}

// How much of what was asked for the run has done.
function target() {
  const { run } = data.report;
  if (!run) return null;
  const asked = run.asked || {}, ended = run.committed + run.aborted + run.unknown;
  const parts = [
    asked.transactions ? [ended / asked.transactions, `${ended.toLocaleString("en")} of ${plural(asked.transactions, "transaction")}`] : null,
    asked.seconds ? [run.seconds / asked.seconds, `${seconds(Math.min(run.seconds, asked.seconds))} of ${seconds(asked.seconds)}`] : null,
  ].filter(Boolean).sort((a, b) => b[0] - a[0]);
  if (!parts.length) return null;
  const share = Math.min(1, parts[0][0]);
  const phase = run.phase === "catching up" ? "Clients have finished; verification catches up." : `${parts[0][1]} (${Math.round(share * 100)} %)`;
  return h("p", { class: "target" }, h("progress", { max: 1, value: share, "aria-label": "Progress of the run" }), " ", phase);
}

function theme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}

// The list of what was found, with how often.
function findings() {
  const all = data.report.anomalies;
  if (!all.length) return null;
  const titles = all.map((anomaly, i) => (details().cases[i] ? details().cases[i].title : anomaly.name));
  const counts = new Map();
  for (const name of titles) counts.set(name, (counts.get(name) || 0) + 1);
  const list = all.length < 2 ? null : h("ol", { class: "found" }, all.map((anomaly, i) =>
    h("li", {}, h("button", { type: "button", "data-anomaly": i, "aria-pressed": i === state.anomaly, onclick: () => open(i) },
      h("b", {}, titles[i]), " ", h("code", {}, anomaly.name), " ",
      h("span", {}, cut(anomaly.transactions.map((txn) => `T${txn}`).join(", "), 60))))));
  const search = all.length > 5 ? h("input", { type: "search", id: "find-anomaly", placeholder: "Search: name or T7", "aria-label": "Search what was found",
    oninput: (event) => filterList(list, event.target.value) }) : null;
  const number = all.length + data.unlisted;
  return h("nav", { "aria-label": "What was found" }, h("h2", {}, `${number.toLocaleString("en")} ${number === 1 ? "anomaly" : "anomalies"}`),
    h("ul", { class: "counts" }, [...counts].map(([name, count]) => h("li", {}, h("b", {}, `${count} ×`), ` ${name}`))),
    h("p", { class: "note" }, data.extent), search, list,
    data.unlisted ? h("p", { class: "note" }, `${data.unlisted} more are not listed here; the JSON has all of them.`) : null);
}

function filterList(list, query) {
  const wanted = query.trim().toLowerCase();
  for (const item of list.children) item.hidden = !item.textContent.toLowerCase().includes(wanted);
}

function open(index) {
  Object.assign(state, { anomaly: index, cycle: 0, txn: null, versions: false, query: "" });
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
  const drawing = data.drawings[state.anomaly][state.cycle][narrow.matches ? "narrow" : "wide"], cycle = picture.cycles[state.cycle];
  const tabs = picture.cycles.length > 1 ? h("div", { class: "tabs", role: "group", "aria-label": "Cycles" },
    picture.cycles.map((_, i) => h("button", { type: "button", "aria-pressed": i === state.cycle, onclick: () => { state.cycle = i; refresh("case", true); } }, `Cycle ${i + 1}`))) : null;
  const list = h("ol", { class: "edges" }, cycle.edges.map((edge, i) =>
    h("li", { class: kindClass(edge.kind), "data-edge": i, tabindex: 0, ...pointable(() => showEdge(i), () => showEdge(null)) },
      h("span", { class: "who" }, `T${edge.from} before T${edge.to}:`), " ", edge.reason.split(": ").slice(1).join(": ") || edge.reason)));
  return h("figure", { class: "graph" }, h("h3", {}, cycle.open ? "What depends on what" : "Which must come before which"), tabs,
    drawing && drawing.cards.length ? scroller({}, drawCycle(view, picture, cycle, drawing, state.cycle)) : null,
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
    : (state.elastic ? "Bars start and end in the true order; their widths only fit the text." : "The width of a bar is the time that its operation took.") + origin;
  return h("figure", { class: "time" }, h("h3", {}, "What the clients did"),
    h("div", { class: "tools" },
      untimed ? null : h("button", { type: "button", id: "scale", "aria-pressed": !state.elastic, onclick: switchTo({ elastic: !state.elastic }) }, "To scale"),
      h("button", { type: "button", id: "fit", "aria-pressed": state.fit, onclick: switchTo({ fit: !state.fit }) }, "Fit to width"),
      near ? h("button", { type: "button", id: "near", "aria-pressed": state.near, onclick: switchTo({ near: !state.near }) }, `Show ${plural(near, "transaction")} nearby`) : null,
      h("input", { type: "search", id: "search", placeholder: "Search operations  ( / )", "aria-label": "Search operations, objects and values", value: state.query,
        oninput: (event) => { state.query = event.target.value; search(); } }),
      h("span", { id: "hits", role: "status" })),
    scroller({ tabindex: 0, role: "region", "aria-label": "Timeline" }, drawTimeline(view, picture, cycle, { ...state, room: room() })),
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

// The versions that the transactions of the anomaly wrote or read; the others fold into their number.
function versionsFigure(picture) {
  const slice = new Set(picture.transactions.filter((txn) => txn.slice).map((txn) => txn.txn));
  const matters = (version) => slice.has(version.by) || version.readers.some((txn) => slice.has(txn));
  const folded = picture.objects.reduce((sum, object) => sum + object.versions.filter((version) => !matters(version)).length, 0);
  const all = state.versions || !slice.size;
  return h("figure", { class: "versions" }, h("h3", {}, "Versions of the objects involved"),
    folded && slice.size ? h("div", { class: "tools" }, h("button", { type: "button", id: "all-versions", "aria-pressed": state.versions,
      onclick: () => { state.versions = !state.versions; refresh("case", true); } }, `Show ${plural(folded, "other version")}`)) : null,
    picture.objects.map((object) => versionStrip(object, all ? () => true : matters)));
}

function versionStrip(object, matters) {
  const items = [];
  for (const version of object.versions) {
    const last = items[items.length - 1];
    if (matters(version)) items.push(version);
    else if (typeof last === "number") items[items.length - 1] = last + 1;
    else items.push(1);
  }
  if (object.left_out) {
    if (typeof items[items.length - 1] === "number") items.push(items.pop() + object.left_out);
    else items.push(object.left_out);
  }
  return h("div", { class: "object" },
    h("h4", {}, h("code", {}, cut(object.name, 80)), h("small", {}, object.versions.length > 2 ? object.order : "")),
    h("ol", { class: "chain" }, items.map((item) => (typeof item === "number" ? h("li", { class: "folded" }, `… ${plural(item, "other version")}`) : versionItem(item)))));
}

function versionItem(version) {
  const readers = version.readers.slice(0, 8).map((txn) => `T${txn}`).join(", ");
  return h("li", { class: version.outcome },
    h("b", {}, version.by === null ? "initial" : `T${version.by}`), version.outcome === "committed" ? null : h("em", {}, version.outcome === "unknown" ? "outcome unknown" : version.outcome),
    h("code", {}, cut(version.value, 90)), readers ? h("small", {}, `read by ${readers}`) : null);
}

function levels(told) {
  if (!told.breaks.length && !told.allowed.length) return h("p", { class: "note" }, "This contradicts a mechanism of the database, not a level.");
  const chips = (names, kind) => h("ul", { class: `levels ${kind}` }, names.map((name) => h("li", { class: name === data.report.level ? "asked" : "" }, name)));
  return h("div", { class: "which" }, h("h3", {}, "Which levels this breaks"),
    h("p", {}, "Impossible under:"), chips(told.breaks, "breaks"),
    told.allowed.length ? [h("p", {}, "Not ruled out by this anomaly:"), chips(told.allowed, "allowed")] : null,
    (data.report.not || []).length ? h("p", { class: "note" }, `In Elle's terms, not ${data.report.not.join(", ")}`,
      data.report.also_not.length ? `; therefore also not ${data.report.also_not.join(", ")}.` : ".") : null);
}

// One command that does it again, and how to audit the proof.
function again() {
  const more = details().again || {}, { run } = data.report;
  const command = (run && run.again) || more.command;
  if (!command && !more.audit) return null;
  const audit = more.audit && more.audit.startsWith("margay ") ? h("pre", {}, h("code", {}, more.audit)) : more.audit ? h("p", { class: "note" }, `Audit: ${more.audit}`) : null;
  return h("section", { class: "again" }, h("h2", {}, "Do it again"), command ? h("pre", {}, h("code", {}, command)) : null, audit);
}

// The statements of the transactions involved, as they ran one after another on several connections.
function statements() {
  const { sql } = details();
  if (!sql) return null;
  return h("section", { class: "sql" }, h("h2", {}, "The SQL"), h("p", { class: "note" },
    "The statements of the transactions of the first anomaly, in the order in which they ran. The number in each comment is the connection."),
    scroller({ tabindex: 0, role: "region", "aria-label": "SQL" }, h("pre", {}, h("code", {}, sql))));
}

function runSection() {
  const { run } = data.report;
  if (!run) return null;
  const ended = [run.ended && run.ended !== "complete" ? `${run.ended} before its end` : null,
    run.lost_connections ? `connections lost: ${run.lost_connections}; the first: ${run.first_loss}` : null].filter(Boolean);
  const rows = [["Database", run.dbms], ["Level", run.level], ["Promise", run.promised], ["Workload", run.workload], ["Clients", run.clients], ["Committed", run.committed], ["Aborted", run.aborted],
    ["Unknown outcome", run.unknown], ["Time", seconds(run.seconds)]].filter((row) => row[1] !== undefined);
  return h("section", { class: "run" }, h("h2", {}, "The run"), h("dl", {}, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, typeof value === "number" ? value.toLocaleString("en") : value)))),
    ended.length ? h("ul", {}, ended.map((what) => h("li", {}, what))) : null,
    run.dropped.length ? h("ul", {}, run.dropped.map((why) => h("li", {}, `a client gave up early: ${why}`))) : null);
}

function checks() {
  const all = details().checks || [];
  if (!all.length) return null;
  const columns = ["Engine", "Level", "Verdict", data.report.verdict === "running" ? "Behind" : "Time", "Details"];
  return h("section", { class: "checks" }, h("h2", {}, "What each engine says"), h("table", {},
    h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, all.map((check) => h("tr", {}, h("th", { scope: "row" }, check.engine), h("td", { class: "asked" }, check.level), h("td", { class: check.verdict }, check.verdict),
      h("td", { class: "took" }, seconds(check.seconds)), h("td", { class: "says" }, check.reason || ""))))));
}

function expected() {
  const all = details().expected || [];
  if (!all.length) return null;
  const name = (one) => `${one.anomaly}, ${one.deviation || "accepted"}: `;
  return h("section", { class: "expected" }, h("h2", {}, "Found, but not counted"),
    h("ul", {}, all.slice(0, 50).map((one) => h("li", {}, name(one) + one.reason))));
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
  expected: [expected, () => details().expected],
  checks: [checks, () => details().checks],
  run: [runSection, () => data.report.run],
  statistics: [statistics, () => details().series],
  sql: [statements, () => details().sql],
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
  cues();
}

document.getElementById("page").append(
  h("div", { id: "part-banner" }),
  h("main", {}, Object.keys(PARTS).filter((name) => name !== "banner").map((name) => h("div", { id: `part-${name}` }))));
Object.keys(PARTS).forEach((name) => refresh(name, true));
narrow.addEventListener("change", () => refresh("case", true));
addEventListener("resize", cues);

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
    document.title = title();
    Object.keys(PARTS).forEach((name) => refresh(name, false));
  };
  events.addEventListener("report", follow);
  events.addEventListener("end", (event) => {
    follow(event);
    events.close();
    document.documentElement.removeAttribute("data-live");
  });
}
