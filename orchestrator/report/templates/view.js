// The runs of a folder, live.
const EVERY = 2000, MOST = 6;
const body = document.getElementById("runs"), status = document.getElementById("status"), none = document.getElementById("none");
const rows = new Map(), before = new Map();
const SVG = "http://www.w3.org/2000/svg";

function bar(counts) {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "bar");
  svg.setAttribute("viewBox", "0 0 1000 12");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", Object.entries(counts).map(([name, count]) => `${name} ${count}`).join(", "));
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

// As eval's own line has it: items settled of all, a second, and the time that is left.
function progress(run, now) {
  const settled = Object.values(run.counts).reduce((sum, count) => sum + count, 0), last = before.get(run.name);
  before.set(run.name, { settled, at: now, rate: last && last.rate });
  const total = run.total === null ? "?" : (run.estimated ? "~" : "") + Math.max(run.total, settled).toLocaleString("en");
  const words = [`${settled.toLocaleString("en")}/${total}`];
  if (!last || run.state !== "running" || now <= last.at) return words.join("");
  const current = ((settled - last.settled) * 1000) / (now - last.at);
  const rate = last.rate === undefined ? current : 0.7 * last.rate + 0.3 * current;
  before.get(run.name).rate = rate;
  words.push(`${rate.toFixed(1)}/s`);
  if (rate > 0 && run.total > settled) words.push(`${time((run.total - settled) / rate)} left`);
  return words.join(" · ");
}

function metrics(run) {
  if (run.metrics.length) {
    const several = run.tasks.length > 1;
    const lines = run.metrics.slice(0, MOST).map((metric) => el("div", {},
      el("span", { class: "muted" }, `${several ? metric.task + ": " : ""}${metric.name} `), el("b", {}, metric.shown),
      el("span", { class: "muted" }, ` of ${metric.n.toLocaleString("en")}`)));
    if (run.metrics.length > MOST) lines.push(el("div", { class: "muted" }, `and ${run.metrics.length - MOST} more`));
    return lines;
  }
  return run.mean === null ? [] : [el("span", { class: "muted" }, "mean score so far "), el("b", {}, (100 * run.mean).toFixed(1))];
}

function fill(row, run, now) {
  const words = Object.entries(run.counts).filter((pair) => pair[1]).map(([name, count]) => `${count.toLocaleString("en")} ${name}`).join(" · ");
  const tasks = run.tasks.length > 4 ? `${run.tasks.length} tasks` : run.tasks.join(", ");
  const about = [tasks, run.method, run.blind ? "blind" : "", run.created.slice(0, 16).replace("T", " ")].filter(Boolean).join(" · ");
  row.replaceChildren(
    el("td", {}, el("a", { href: run.address }, run.name), el("div", { class: "note" }, `${run.model} · ${about}`)),
    el("td", {}, el("span", { class: "chip state-" + run.state }, run.state)),
    el("td", {}, ...metrics(run)),
    el("td", { class: "number" }, progress(run, now), el("div", { class: "note" }, `${run.answered.toLocaleString("en")} answers`)),
    el("td", { class: "outcomes" }, bar(run.counts), el("span", { class: "note" }, words)));
}

async function look() {
  try {
    const answer = await fetch("api/runs", { cache: "no-store" });
    const found = await answer.json(), now = Date.now();
    found.sort((a, b) => (a.created < b.created ? 1 : a.created > b.created ? -1 : 0));
    for (const [name, row] of rows) if (!found.some((run) => run.name === name)) { row.remove(); rows.delete(name); }
    found.forEach((run, place) => {
      const shown = JSON.stringify(run);
      let row = rows.get(run.name);
      if (!row) { row = el("tr", {}); rows.set(run.name, row); }
      if (body.children[place] !== row) body.insertBefore(row, body.children[place] || null);
      if (row.dataset.shown !== shown || run.state === "running") fill(row, run, now);
      row.dataset.shown = shown;
    });
    none.hidden = found.length > 0;
    const running = found.filter((run) => run.state === "running").length;
    status.textContent = `${found.length} runs${running ? `, ${running} running` : ""}`;
  } catch (error) {
    status.textContent = "the server does not answer";
  }
  setTimeout(look, EVERY);
}
look();
