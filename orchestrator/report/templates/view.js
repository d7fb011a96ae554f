// The runs of a folder: a table that follows them, and the choice of those to compare.
const EVERY = 2000, MOST = 6;
const body = $("runs"), status = $("status"), none = $("none"), controls = $("controls"), chosen = $("chosen");
const rows = new Map(), before = new Map();
const SVG = "http://www.w3.org/2000/svg";
let runs = [], filter = {}, picked = [], current = "", lost = false;

// ---- one run -----------------------------------------------------------------------------------
const spelled = (counts) => Object.entries(counts).filter((pair) => pair[1]).map(([name, count]) => `${count.toLocaleString("en")} ${name}`).join(", ");

function bar(counts) {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const svg = document.createElementNS(SVG, "svg");
  const attributes = { class: "bar", viewBox: "0 0 1000 12", preserveAspectRatio: "none", role: "img", "aria-label": spelled(counts) || "no item yet" };
  for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, value);
  let at = 0;
  for (const [name, count] of Object.entries(counts)) {
    if (!count) continue;
    const width = (1000 * count) / total, piece = document.createElementNS(SVG, "rect");
    for (const [attribute, value] of Object.entries({ class: name, x: at, y: 0, width, height: 12 })) piece.setAttribute(attribute, value);
    svg.append(piece);
    at += width;
  }
  return svg;
}

function time(seconds) {
  const two = (number) => String(number).padStart(2, "0"), minutes = Math.floor(seconds / 60), rest = two(Math.floor(seconds % 60));
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${rest}`;
}

// Another tool's log that is not read yet, or cannot be. A run whose answers are not counted has null of them.
const unread = (run) => run.state === "reading" || run.state === "unreadable";
const settled = (run) => Object.values(run.counts).reduce((sum, count) => sum + count, 0);

// As eval's own line has it: items settled of all, a second, and the time that is left.
function progress(run, now) {
  const done = settled(run), last = before.get(run.name);
  if (unread(run) || run.answered === null) return "";
  if (run.state === "complete") return done.toLocaleString("en");
  before.set(run.name, { settled: done, at: now, rate: last && last.rate });
  const total = run.total === null ? "?" : (run.estimated ? "~" : "") + Math.max(run.total, done).toLocaleString("en");
  const words = [`${done.toLocaleString("en")}/${total}`];
  if (!last || run.state !== "running" || now <= last.at) return words.join("");
  const recent = ((done - last.settled) * 1000) / (now - last.at);
  const rate = last.rate === undefined ? recent : 0.7 * last.rate + 0.3 * recent;
  before.get(run.name).rate = rate;
  words.push(`${rate.toFixed(1)}/s`);
  if (rate > 0 && run.total > done) words.push(`${time((run.total - done) / rate)} left`);
  return words.join(" · ");
}

// The metrics that the filters leave: the one that is chosen, else the first of each task.
const metricName = (metric) => `${metric.task}: ${metric.name}`;
function metrics(run) {
  const mine = run.metrics.filter((metric) => !filter.task || metric.task === filter.task);
  if (filter.metric) return mine.filter((metric) => metricName(metric) === filter.metric);
  return filter.task ? mine : mine.filter((metric, at) => mine.findIndex((other) => other.task === metric.task) === at);
}

function values(run) {
  const found = metrics(run);
  if (!run.metrics.length && run.mean !== null) return [el("span", { class: "muted" }, "so far "), el("b", {}, (100 * run.mean).toFixed(1))];
  const several = new Set(run.metrics.map((metric) => metric.task)).size > 1 && !filter.task;
  const lines = found.slice(0, MOST).map((metric) => el("div", { class: "value-line" },
    el("b", {}, metric.shown), el("span", { class: "interval" }, metric.interval),
    filter.metric ? "" : el("span", { class: "name" }, several ? metricName(metric) : metric.name), el("span", { class: "muted" }, `n=${metric.n.toLocaleString("en")}`)));
  if (found.length > MOST) lines.push(el("div", { class: "muted" }, `and ${found.length - MOST} more`));
  return lines;
}

// A name wraps behind its slashes, dashes and dots, not within a word.
const breakable = (name) => name.split(/(?<=[/_.-])/).flatMap((part) => [part, el("wbr")]);

// The cell of the choice stays, so that neither focus nor a click is lost when a run grows.
function fill(row, run, now) {
  const unscored = settled(run) - (run.counts.scored || 0);
  const tasks = run.tasks.length > 4 ? `${run.tasks.length} tasks` : run.tasks.join(", "), about = [run.method, run.blind ? "blind" : ""].filter(Boolean).join(", ");
  for (const cell of [...row.children].slice(1)) cell.remove();
  row.append(
    el("th", { scope: "row" }, el("a", { href: run.address }, ...breakable(run.name)), el("div", { class: "note" }, [run.model, run.tool].filter(Boolean).join(" · "))),
    el("td", { class: "task" }, tasks, el("div", { class: "note" }, about)),
    el("td", {}, ...values(run), ...(run.doubts || []).map((line) => el("div", { class: "note doubt" }, line))),
    el("td", { class: "now" }, el("span", { class: "chip state-" + run.state }, run.part && run.state === "complete" ? "part" : run.state), run.part || run.note ? el("div", { class: "note" }, run.part || run.note) : ""),
    el("td", { class: "outcomes" }, progress(run, now), run.state !== "complete" && run.answered && run.answered !== settled(run) ? el("div", { class: "note" }, `${run.answered.toLocaleString("en")} answers`) : "", unread(run) || run.answered === null ? "" : bar(run.counts), unscored ? el("span", { class: "note", title: spelled(run.counts) }, `${unscored.toLocaleString("en")} not scored`) : "", run.cut ? el("span", { class: "note" }, `${unscored ? ", " : ""}${run.cut.toLocaleString("en")} cut`) : ""),
    el("td", { class: "begun" }, run.created.slice(0, 16).replace("T", " ")));
}

function makeRow(run) {
  const box = el("input", { type: "checkbox", "aria-label": `Compare ${run.name}`, onchange: () => pick(run.name) });
  return el("tr", { tabindex: "-1", onfocus: () => { current = run.name; }, onclick: (event) => { if (!event.target.closest("a, input")) { current = run.name; paint(); } } }, el("td", { class: "choice" }, box));
}

// ---- order and filters -------------------------------------------------------------------------
const numeric = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
const score = (run) => { const first = metrics(run)[0]; return first && first.value !== null ? first.value : undefined; };
const COLUMNS = [
  ["run", "Run", (run) => run.name], ["task", "Task", (run) => run.tasks.join(", ")], ["metric", "Metric, 95% CI", score],
  ["state", "State", (run) => run.state], ["items", "Items", settled], ["begun", "Begun", (run) => run.created],
];
const FALLING = ["metric", "items", "begun"];

function sorting() {
  const name = COLUMNS.some(([known]) => known === filter.sort) ? filter.sort : "begun";
  return [name, filter.order || (FALLING.includes(name) ? "down" : "up")];
}

function order(a, b) {
  const [name, way] = sorting(), [, , value] = COLUMNS.find(([known]) => known === name), [one, other] = [value(a), value(b)];
  if (one === undefined || other === undefined) return (one === undefined) - (other === undefined) || numeric.compare(a.name, b.name);
  return (way === "up" ? 1 : -1) * (typeof one === "number" ? one - other : numeric.compare(one, other)) || numeric.compare(a.name, b.name);
}

function sortBy(name) {
  const [now, way] = sorting();
  filter.order = now === name ? (way === "down" ? "up" : "down") : FALLING.includes(name) ? "down" : "up";
  filter.sort = name;
  changed();
}

function heads() {
  const [sorted, way] = sorting();
  for (const [name] of COLUMNS) {
    const head = $("head-" + name);
    if (name === sorted) head.setAttribute("aria-sort", way === "down" ? "descending" : "ascending"); else head.removeAttribute("aria-sort");
    head.firstChild.lastChild.textContent = name === sorted ? (way === "down" ? " ↓" : " ↑") : "";
  }
}

const text = (run) => [run.name, run.model, run.tool, ...run.tasks, run.method, run.blind ? "blind" : "", run.created].join("\n").toLowerCase();
const FILTERS = {
  task: ["Task", (run) => run.tasks], metric: ["Metric", (run) => run.metrics.filter((metric) => !filter.task || metric.task === filter.task).map(metricName)],
  model: ["Model", (run) => (run.model ? [run.model] : [])], tool: ["Tool", (run) => [run.tool || "Lyncean"]], state: ["State", (run) => [run.state]],
};
const passes = (run, but) => Object.entries(FILTERS).every(([name, [, valuesOf]]) => name === but || !filter[name] || valuesOf(run).includes(filter[name]))
  && (!filter.q || text(run).includes(filter.q.toLowerCase()));

function build() {
  $("heads").append(el("th", { scope: "col" }, el("span", { class: "unseen" }, "Compare")), ...COLUMNS.map(([name, title]) => el("th", { scope: "col", class: name, id: "head-" + name },
    el("button", { type: "button", class: "quiet", onclick: () => sortBy(name) }, title, el("span", { "aria-hidden": "true" })))));
  for (const [name, [title]] of Object.entries(FILTERS)) controls.append(el("label", {}, title, el("select", { name, onchange: (event) => set(name, event.target.value) }, el("option", { value: "" }, "all"))));
  controls.append(el("label", { class: "grow" }, "Text", el("input", { type: "search", name: "q", placeholder: "run, model, task", autocomplete: "off", spellcheck: "false", oninput: (event) => set("q", event.target.value) })),
    el("button", { type: "button", id: "clear", onclick: clear }, "Clear"));
  controls.addEventListener("submit", (event) => event.preventDefault());
}

// Each filter offers what the runs that pass the others have, and says how many.
function offer() {
  for (const [name, [, valuesOf]] of Object.entries(FILTERS)) {
    const counts = new Map(filter[name] ? [[filter[name], 0]] : []), select = controls.elements[name];
    for (const run of runs) if (passes(run, name)) for (const value of new Set(valuesOf(run))) counts.set(value, (counts.get(value) || 0) + 1);
    const options = [...counts].sort((a, b) => numeric.compare(a[0], b[0])), shown = JSON.stringify(options);
    if (select.dataset.shown !== shown) select.replaceChildren(el("option", { value: "" }, "all"), ...options.map(([value, count]) => el("option", { value }, `${value} (${count})`)));
    select.dataset.shown = shown;
    select.value = filter[name] || "";
    select.parentNode.hidden = options.length < 2 && !filter[name];
  }
  $("clear").hidden = !["q", ...Object.keys(FILTERS)].some((name) => filter[name]);
  if (document.activeElement !== controls.elements.q) controls.elements.q.value = filter.q || "";
}

function set(name, value) {
  if (value) filter[name] = value; else delete filter[name];
  if (name === "task" && value && filter.metric && !filter.metric.startsWith(value + ": ")) delete filter.metric;
  changed();
}
function clear() { filter = Object.fromEntries(Object.entries(filter).filter(([name]) => name === "sort" || name === "order")); controls.elements.q.value = ""; changed(); }
function changed() { for (const row of rows.values()) delete row.dataset.shown; paint(); remember(); }

function remember() {
  const words = new URLSearchParams(filter);
  for (const name of picked) words.append("run", name);
  history.replaceState(null, "", "#" + words);
}

function recall() {
  const words = new URLSearchParams(location.hash.slice(1));
  picked = words.getAll("run");
  for (const name of ["sort", "order", "q", ...Object.keys(FILTERS)]) if (words.get(name)) filter[name] = words.get(name);
}

// ---- the table ---------------------------------------------------------------------------------
function paint() {
  const now = Date.now(), found = runs.filter((run) => passes(run)).sort(order), names = new Set(found.map((run) => run.name));
  for (const [name, row] of rows) if (!names.has(name)) { row.remove(); rows.delete(name); }
  found.forEach((run, place) => {
    const shown = JSON.stringify(run);
    if (!rows.has(run.name)) rows.set(run.name, makeRow(run));
    const row = rows.get(run.name);
    if (body.children[place] !== row) body.insertBefore(row, body.children[place] || null);
    if (row.dataset.shown !== shown || run.state === "running") fill(row, run, now);
    row.dataset.shown = shown;
    row.classList.toggle("current", run.name === current);
    row.firstChild.firstChild.checked = picked.includes(run.name);
  });
  heads();
  offer();
  const running = runs.filter((run) => run.state === "running").length, of = found.length === runs.length ? "" : `${found.length} of `;
  const words = `${of}${runs.length} run${runs.length === 1 ? "" : "s"}${running ? `, ${running} running` : ""}`;
  if (!lost && status.textContent !== words) status.textContent = words;
  none.hidden = found.length > 0;
  none.textContent = runs.length ? "No run passes these filters." : "No run here yet. It appears as soon as one begins.";
  choice();
}

const comparison = () => "compare/?" + new URLSearchParams(picked.map((name) => ["run", name]));
function pick(name) {
  picked = picked.includes(name) ? picked.filter((other) => other !== name) : [...picked, name];
  paint();
  remember();
}

function choice() {
  chosen.hidden = !picked.length;
  if (chosen.dataset.shown === picked.join("\n")) return;
  chosen.dataset.shown = picked.join("\n");
  const [first, ...others] = picked;
  chosen.replaceChildren(el("p", {}, el("b", {}, first || ""), el("span", { class: "muted" }, others.length ? " → " : ", the baseline: choose another run"), others.join(", ")),
    others.length ? el("a", { class: "button", id: "compare", href: comparison(), onclick: (event) => { event.target.textContent = "Comparing…"; } }, "Compare") : "",
    el("button", { type: "button", class: "quiet", onclick: () => { picked = []; paint(); remember(); } }, "None"));
}

function move(by) {
  const all = [...body.children], at = all.findIndex((row) => rows.get(current) === row);
  const row = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))];
  if (!row) return;
  row.focus();
  paint();
  row.scrollIntoView({ block: "nearest" });
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (/^(SELECT|TEXTAREA)$/.test(event.target.tagName) || event.target.type === "search") { if (event.key === "Escape") event.target.blur(); return; }
  const row = rows.get(current), inTable = event.target === document.body || event.target.tagName === "TR";
  const actions = { j: () => move(1), k: () => move(-1), x: clear, "/": () => controls.elements.q.focus(), "?": () => $("help").showModal(), c: () => { if (picked.length > 1) $("compare").click(); } };
  if (row && inTable) Object.assign(actions, { Enter: () => row.querySelector("a").click(), " ": () => pick(current) });
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

async function look() {
  try {
    const answer = await fetch("api/runs", { cache: "no-store" });
    lost = !answer.ok;
    if (lost) status.textContent = await answer.text(); else runs = await answer.json();
  } catch (error) {
    lost = true;
    status.textContent = "the server does not answer";
  }
  if (!lost) paint();
  setTimeout(look, EVERY);
}

recall();
build();
addEventListener("keydown", keys);
$("help").addEventListener("click", () => $("help").close());
look();
