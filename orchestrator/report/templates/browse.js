// The samples of a page: filters, list, keys and address. A page's own script says what an item is:
//   FIELDS         names of the filters that a link may set, beside labels
//   SORTS          orders by name: [function that returns the values, 1 or -1]
//   ACTIONS        keys of its own
//   filters()      its filters, each made by `facet`
//   kind(at)       how an item is marked, one of SIGNS
//   judged(at)     its verdict in a few words
//   isListed(at)   whether it counts where no filter names its outcome
//   words(line)    the text of an item that is searched
//   page(at, line) the nodes that show it
const ROW = 74, CELL = 176, CELL_ROW = 204, AHEAD = 8;
const SIGNS = { right: "✓", wrong: "✗", partial: "◐", unparsed: "?", refused: "⊘", rejected: "!", unjudged: "~", failed: "!", step: "→", pending: "…", scored: "·", worse: "↓", better: "↑" };
const panes = document.querySelector(".panes"), list = $("list"), space = $("space"), detail = $("detail"), status = $("status"), controls = $("controls");
let index, labels, position;
let shown = [], selected = -1, filter = {}, search = 0;
const chunks = new Map(), texts = new Map(), rows = new Map();

const MOST_VALUES = 200;
// Each filter: its name, what it is called, its values, the number of an item's value (-1 for none) and, for a label,
// the values that occur in each task.
let facets = [];

async function unpack(id) {
  const coded = atob($(id).textContent);
  const bytes = new Uint8Array(coded.length);
  for (let at = 0; at < coded.length; at++) bytes[at] = coded.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function chunk(number) {
  let found = chunks.get(number);
  if (!found) {
    found = unpack("chunk-" + number);
    chunks.set(number, found);
    if (chunks.size > 60) chunks.delete(chunks.keys().next().value);
  }
  return found;
}

const item = async (at) => (await chunk(Math.floor(at / index.chunk)))[at % index.chunk];

const coded = (column, at) => (column.codes[at] < 0 ? "" : column.names[column.codes[at]]);

function facet(name, title, names, code, tasks) {
  const options = names.map((value) => el("option", { value }));
  const select = el("select", { name, onchange: () => { set(name, select.value); } }, el("option", { value: "" }, "all"), ...options);
  return { name, title, names, code, tasks, options, label: el("label", {}, title, select) };
}

const codedFacet = (name, title) => facet(name, title, index[name].names, (at) => index[name].codes[at]);

const numeric = new Intl.Collator("en", { numeric: true });

function labelFacet(name) {
  const column = index.labels[name], tasks = index.task.names.map(() => new Set());
  column.codes.forEach((code, at) => { if (code >= 0) tasks[index.task.codes[at]].add(code); });
  const order = column.names.map((_, code) => code).sort((a, b) => numeric.compare(column.names[a], column.names[b]));
  const places = new Array(order.length);
  order.forEach((code, place) => { places[code] = place; });
  return facet("label." + name, name, order.map((code) => column.names[code]), (at) => { const code = column.codes[at]; return code < 0 ? -1 : places[code]; }, tasks);
}

// Values of a column in the order of their numbers.
function numbered(name, title) {
  const column = index[name], order = column.names.map((_, code) => code).sort((a, b) => numeric.compare(column.names[a], column.names[b]));
  const places = new Map(order.map((code, place) => [code, place]));
  return facet(name, title, order.map((code) => column.names[code]), (at) => { const code = column.codes[at]; return code < 0 ? -1 : places.get(code); });
}

// A label is offered where it tells items of the chosen task apart; without a task, of every task.
function applies(one) {
  if (filter[one.name] !== undefined || !one.tasks) return true;
  const chosen = index.task.names.indexOf(filter.task);
  return chosen >= 0 ? one.tasks[chosen].size > 1 : one.names.length > 1 && one.tasks.every((values) => values.size > 0);
}

// How often each value occurs among the items that pass all other filters.
function count(one, counts) {
  const all = one.always || filter[one.name] !== undefined;
  one.options.forEach((option, place) => {
    option.textContent = `${one.names[place]} (${counts[place].toLocaleString("en")})`;
    option.hidden = option.disabled = !counts[place] && filter[one.name] !== one.names[place];
  });
  one.label.hidden = !applies(one) || (!all && counts.filter(Boolean).length < 1);
}

function build() {
  facets = filters();
  for (const name of labels) if (index.labels[name].names.length > 1 && index.labels[name].names.length <= MOST_VALUES) facets.push(labelFacet(name));
  controls.append(...facets.map((one) => one.label));
  const sort = el("select", { name: "sort", onchange: () => { set("sort", sort.value); } }, el("option", { value: "" }, "as in the data"));
  for (const [name, [values]] of Object.entries(SORTS)) if (new Set(values()).size > 1) sort.append(el("option", { value: name }, name));
  let timer;
  const text = el("input", { type: "search", name: "q", placeholder: "prompt, answer, key, judge", autocomplete: "off", spellcheck: "false",
    oninput: () => { clearTimeout(timer); timer = setTimeout(() => set("q", text.value), 150); } });
  controls.append(el("label", { hidden: sort.length < 2 }, "Sort", sort), el("label", { class: "grow" }, "Text", text), el("button", { type: "button", onclick: clear }, "Clear"),
    el("button", { type: "button", id: "grid", "aria-pressed": "false", onclick: toggle }, "Grid"));
  controls.addEventListener("submit", (event) => event.preventDefault());
}

const KEPT = ["sample", "sort", "view"];

function clear() { filter = Object.fromEntries(Object.entries(filter).filter(([name]) => KEPT.includes(name))); changed(); }

function toggle() { set("view", filter.view === "grid" ? "" : "grid"); }

function set(name, value) { if (value) filter[name] = value; else delete filter[name]; changed(); }

function changed() {
  const grid = filter.view === "grid";
  panes.classList.toggle("grid", grid);
  $("grid").setAttribute("aria-pressed", String(grid));
  for (const one of facets) {  // a link may name a value that this page does not hold
    const value = filter[one.name], select = one.label.lastChild;
    if (value !== undefined && !one.names.includes(value) && ![...select.options].some((option) => option.value === value)) select.append(el("option", { value }, `${value} (0)`));
  }
  for (const field of controls.elements) if (field.name) field.value = filter[field.name] || "";
  apply();
}

// The one filter that an item does not pass, null where it passes all, undefined where there are several.
function fails(at, wanted) {
  let failed = null;
  if (filter.outcome === undefined && !isListed(at)) return undefined;
  for (const [one, value] of wanted) {
    if (one.code(at) === value) continue;
    if (failed) return undefined;
    failed = one;
  }
  for (const name of labels) {  // of too many values for a list
    const value = filter["label." + name];
    if (value !== undefined && !facets.some((one) => one.name === "label." + name) && coded(index.labels[name], at) !== value) return undefined;
  }
  return failed;
}

async function apply() {
  const mine = ++search, text = (filter.q || "").toLowerCase(), hits = [];
  const wanted = facets.filter((one) => filter[one.name] !== undefined).map((one) => [one, one.names.indexOf(filter[one.name])]);
  const counts = new Map(facets.map((one) => [one, new Array(one.names.length).fill(0)]));
  let number = -1, lines = [], unpacked = 0;
  for (let at = 0; at < index.size; at++) {
    const failed = fails(at, wanted);
    if (failed === undefined) continue;
    if (text) {
      const needed = Math.floor(at / index.chunk);
      if (needed !== number) {
        number = needed;
        if (!texts.has(number)) texts.set(number, (await chunk(number)).map(words));
        if (mine !== search) return;
        lines = texts.get(number);
        if (unpacked++ % 10 === 9) present(hits.slice(), false);
      }
      if (!lines[at % index.chunk].includes(text)) continue;
    }
    if (!failed) hits.push(at);
    for (const one of failed ? [failed] : facets) { const code = one.code(at); if (code >= 0) counts.get(one)[code]++; }
  }
  for (const one of facets) count(one, counts.get(one));
  const by = SORTS[filter.sort];
  if (by) {
    const values = by[0](), last = (value) => value === null || value === undefined;
    hits.sort((a, b) => (last(values[a]) - last(values[b])) || (last(values[a]) ? a - b : by[1] * (values[a] - values[b]) || a - b));
  }
  present(hits, true);
}

function present(found, done) {
  shown = found;
  spread();
  for (const node of rows.values()) node.remove();
  rows.clear();
  let all = 0;
  for (let at = 0; at < index.size; at++) all += isListed(at);
  status.textContent = `${shown.length.toLocaleString("en")} of ${all.toLocaleString("en")} items${done ? "" : ", searching…"}`;
  status.dataset.done = String(done);
  let at = shown.indexOf(selected);
  if (at < 0 && done) {
    const wanted = filter.sample !== undefined ? position.get(filter.sample) : undefined;
    at = wanted === undefined ? -1 : shown.indexOf(wanted);
    if (at >= 0) select(at, false);
    else if (wanted !== undefined && selected < 0) { selected = wanted; open(wanted); }
    else if (shown.length && wanted === undefined) select(0, false);
  }
  if (at >= 0) reveal(at); else if (done) list.scrollTop = 0;
  if (!shown.length && done && selected < 0) detail.replaceChildren(el("p", { class: "empty" }, "Nothing passes these filters."));
  paint();
  remember();
}

// ---- list
let columns = 1, height = ROW;

function spread() {
  const grid = filter.view === "grid";
  columns = grid ? Math.max(1, Math.floor(list.clientWidth / CELL)) : 1;
  height = grid ? CELL_ROW : ROW;
  space.style.height = Math.ceil(shown.length / columns) * height + "px";
}

function paint() {
  const from = Math.max(0, Math.floor(list.scrollTop / height) - AHEAD / columns) * columns;
  const to = Math.min(shown.length, (Math.ceil((list.scrollTop + list.clientHeight) / height) + AHEAD / columns) * columns);
  for (const [place, node] of rows) if (place < from || place >= to) { node.remove(); rows.delete(place); }
  for (let place = Math.floor(from); place < to; place++) if (!rows.has(place)) {
    const node = row(place);
    rows.set(place, node);
    list.append(node);
  }
  const current = rows.get(shown.indexOf(selected));
  if (current) list.setAttribute("aria-activedescendant", current.id); else list.removeAttribute("aria-activedescendant");
}

function row(place) {
  const at = shown[place], found = kind(at), question = coded(index.question, at), said = judged(at);
  const node = el("div", { class: "row " + found, role: "option", id: "row-" + at, "aria-selected": String(at === selected),
    "aria-posinset": place + 1, "aria-setsize": shown.length, onclick: () => { if (filter.view) { selected = at; filter.sample = index.key[at]; set("view", ""); open(at); } else select(place, true); } },
    thumbnail(coded(index.image, at)), el("span", { class: "sign", "aria-label": found, title: found }, SIGNS[found] || "·"),
    el("span", { class: "took", title: said }, said), el("span", { class: "name", title: index.key[at] }, index.key[at]),
    el("span", { class: "said", title: question }, question || (index.answer || [])[at] || " "));
  if (filter.view) {
    const width = list.clientWidth / columns;
    node.style.left = (place % columns) * width + "px";
    node.style.width = width + "px";
  }
  node.style.top = Math.floor(place / columns) * height + "px";
  return node;
}

function reveal(place) {
  const top = Math.floor(place / columns) * height;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + height > list.scrollTop + list.clientHeight) list.scrollTop = top + height - list.clientHeight;
}

function select(place, chosen) {
  const before = rows.get(shown.indexOf(selected));
  if (before) before.setAttribute("aria-selected", "false");
  selected = shown[place];
  reveal(place);
  paint();
  const now = rows.get(place);
  if (now) now.setAttribute("aria-selected", "true");
  if (chosen) { filter.sample = index.key[selected]; remember(); }
  open(selected);
}

async function open(at) {
  const line = await item(at);
  if (at !== selected) return;
  detail.replaceChildren(...page(at, line));
  detail.scrollTop = 0;
}

function jump(at) {
  const place = shown.indexOf(at);
  if (place >= 0) return select(place, true);
  selected = at;
  filter.sample = index.key[at];
  for (const node of rows.values()) node.setAttribute("aria-selected", "false");
  remember();
  open(at);
}

// ---- address
function remember() {
  const text = new URLSearchParams(filter).toString();
  if (text !== new URLSearchParams(location.hash.slice(1)).toString() && (text || location.hash.includes("="))) history.replaceState(null, "", "#" + text);
}

function recall(scroll) {
  const text = location.hash.slice(1);
  if (!text.includes("=")) return false;
  filter = Object.fromEntries(new URLSearchParams(text));
  for (const name of Object.keys(filter)) if (!FIELDS.includes(name) && name !== "q" && name !== "sample" && !name.startsWith("label.")) delete filter[name];
  if (filter.sample !== undefined) selected = -1;
  changed();
  if (scroll) $("samples").scrollIntoView();
  return true;
}

function step(by) {
  if (!shown.length) return;
  const at = shown.indexOf(selected);
  select(Math.max(0, Math.min(shown.length - 1, at < 0 ? 0 : at + by)), true);
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (typing) { if (event.key === "Escape") { event.target.blur(); list.focus(); } return; }
  if (document.querySelector("dialog[open]")) return;
  const inList = event.target === list, grid = filter.view === "grid", page = columns * Math.max(1, Math.floor(list.clientHeight / height) - 1);
  const actions = { j: () => step(1), k: () => step(-1), x: clear,
    "/": () => { controls.elements.q.focus(); }, "?": () => $("help").showModal(),
    f: () => { controls.elements[0].focus(); }, s: () => { controls.elements.sort.focus(); }, g: toggle, z: () => { const image = detail.querySelector("img"); if (image) zoom(image.src); }, ...ACTIONS };
  if (grid && selected >= 0) actions.Enter = toggle;
  if (grid && inList) Object.assign(actions, { ArrowRight: () => step(1), ArrowLeft: () => step(-1) });
  if (inList) Object.assign(actions, { ArrowDown: () => step(columns), ArrowUp: () => step(-columns), PageDown: () => step(page), PageUp: () => step(-page), Home: () => step(-shown.length), End: () => step(shown.length) });
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
  if (event.key !== "?" && $("samples").getBoundingClientRect().top > innerHeight * 0.6) $("samples").scrollIntoView();
}

async function start() {
  if (!list) return;
  if (typeof DecompressionStream === "undefined") { status.textContent = "This browser is too old to unpack the samples (Chrome 80, Firefox 113, Safari 16.4)."; return; }
  index = await unpack("index");
  labels = Object.keys(index.labels);
  position = new Map(index.key.map((key, at) => [key, at]));
  build();
  list.addEventListener("scroll", paint, { passive: true });
  addEventListener("resize", () => { for (const node of rows.values()) node.remove(); rows.clear(); spread(); paint(); });
  addEventListener("keydown", keys);
  addEventListener("hashchange", () => recall(true));
  for (const box of document.querySelectorAll("dialog")) box.addEventListener("click", () => box.close());
  if (!recall(true)) apply();
}
