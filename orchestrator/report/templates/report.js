// A run's samples and charts.
const FIELDS = ["outcome", "verdict", "task", "reason", "calls", "tool_errors", "sort", "view"];
const ACTIONS = { w: () => set("verdict", filter.verdict === "wrong" ? "" : "wrong"), "[": () => aside(-1), "]": () => aside(1) };

const words = searched;
const isListed = (at) => coded(index.outcome, at) !== "step";

const kind = (at) => marking(coded(index.outcome, at), index.score[at]);

const isWrong = (at) => { const found = kind(at); return found === "wrong" || found === "unparsed" || found === "refused"; };

const VERDICTS = ["right", "wrong", "partial"];

function verdict(at) {
  const found = kind(at);
  return found === "right" ? 0 : found === "partial" ? 2 : isWrong(at) ? 1 : -1;
}

function filters() {
  const found = [facet("verdict", "Right or wrong", VERDICTS, verdict), codedFacet("outcome", "Outcome")];
  for (const one of found) one.always = true;
  if (index.task.names.length > 1) found.push(codedFacet("task", "Task"));
  if (index.reason.names.length) found.push(codedFacet("reason", "Reason"));
  for (const [name, title] of [["calls", "Calls"], ["tool_errors", "Tool errors"]]) if (index[name].names.length) found.push(numbered(name, title));
  return found;
}

const SORTS = {
  "lowest score": [() => index.score, 1], "highest score": [() => index.score, -1],
  "longest answer": [() => index.length, -1], "shortest answer": [() => index.length, 1], "slowest": [() => index.seconds, -1],
};

// What the model said and what is right, in a few words.
function judged(at) {
  const found = kind(at), target = index.target[at], extracted = index.extracted[at], right = target ? `, right ${target}` : "";
  if (found === "right") return extracted ? `said ${extracted}, right` : "right";
  if (found === "wrong") return extracted ? `said ${extracted}${right}` : `wrong${right}`;
  if (found === "partial") return `${extracted ? `said ${extracted}, ` : ""}score ${Number(index.score[at].toPrecision(3))}${right}`;
  if (found === "unparsed") return `could not be read${right}`;
  if (found === "scored") return extracted ? `said ${extracted}${right}` : "scored";
  const reason = coded(index.reason, at);
  return found === "step" ? "a step, not scored" : `${found === "pending" ? "not scored yet" : found}${reason ? `: ${reason}` : ""}${found === "refused" ? right : ""}`;
}

function page(at, line) {
  const response = line.r, verdict = line.v, scoring = response.scoring || {}, images = el("div", { class: "pictures" });
  const text = el("div", { class: "text" }, labelChips(scoring.labels || verdict.labels || {}), ...steps(at),
    el("h3", {}, "What was asked"), ...asked(response, { images }), ...trajectory(at, response), el("h3", {}, "What it answered"), ...answered(response, verdict));
  if (verdict.outcome || scoring.rule) {
    text.append(el("h3", {}, "How it was read"), reading(response, verdict));
    if (!(response.response || {}).scores) text.append(...optionList(scoring));
  }
  text.append(...judgement(verdict), call(response));
  return images.childElementCount ? [heading(at), el("div", { class: "beside-text" }, images, text)] : [heading(at), text];
}

// The key less the turn's name, which the index has: a key may hold any number of colons.
function sample(at) {
  const key = index.key[at], turn = coded(index.turn, at);
  return turn ? key.slice(0, -1 - turn.length) : key;
}

let samples;
function siblings(at) {
  if (!samples) {
    samples = new Map();
    for (let other = 0; other < index.size; other++) {
      const name = sample(other);
      if (!samples.has(name)) samples.set(name, []);
      samples.get(name).push(other);
    }
  }
  return samples.get(sample(at));
}

const CALL = /(^|-)call\d+(-tool\d+)?$/;
const isCall = (at) => CALL.test(coded(index.turn, at));

// The calls by which a model with tools came to its answer, each with what came of its tools.
function trajectory(at, response) {
  if (!response.facts) return [];
  const own = coded(index.turn, at), calls = siblings(at).filter((other) => isCall(other) && coded(index.turn, other).replace(CALL, "") === own);
  if (!calls.length) return [];
  const block = el("div", { class: "trajectory" });
  play(block, calls, ((response.request || {}).messages || []).flatMap((message) => message.parts || []).filter((part) => part.image).map((part) => part.image));
  return [el("h3", {}, "How it came to that"), block];
}

async function play(block, calls, pictures) {
  for (const at of calls) {
    const { r } = await item(at);
    block.append(r.tool ? toolStep(r.tool, pictures) : callStep(r, block.querySelectorAll(".answer").length + 1));
  }
}

function steps(at) {
  const all = siblings(at).filter((other) => other === at || !isCall(other));
  if (all.length < 2) return [];
  const block = el("div", { class: "chips" });
  for (const other of all) {
    const name = coded(index.turn, other) || "answer";
    block.append(el("button", { class: "chip tone-chip " + kind(other), type: "button", "aria-current": other === at ? "step" : null, onclick: () => jump(other) }, (other === at ? "• " : "") + name));
  }
  return [el("h3", {}, "All that was asked of this sample"), block];
}

function aside(by) {
  if (selected < 0) return;
  const all = siblings(selected), at = all.indexOf(selected) + by;
  if (at >= 0 && at < all.length) jump(all[at]);
}

// Without a script, browsers show the same titles themselves.
function tooltips() {
  const tip = el("div", { class: "tip", role: "tooltip", id: "tip", hidden: "" });
  document.body.append(tip);
  for (const chart of document.querySelectorAll("#charts figure")) {
    for (const node of chart.querySelectorAll("[title]")) { node.dataset.words = node.title; node.removeAttribute("title"); }
    for (const title of chart.querySelectorAll("title")) { title.parentNode.dataset.words = title.textContent; title.remove(); }
    const show = (event) => {
      const node = event.target.closest("[data-words]");
      tip.hidden = !node;
      if (!node) return;
      tip.textContent = node.dataset.words;
      const frame = node.getBoundingClientRect(), pointed = event.type === "pointermove";
      const x = pointed ? event.clientX + 12 : frame.left, y = pointed ? event.clientY + 16 : frame.bottom + 4;
      tip.style.left = Math.max(4, Math.min(x, innerWidth - tip.offsetWidth - 8)) + "px";
      tip.style.top = (y + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 28 : y) + "px";
    };
    for (const name of ["pointermove", "focusin"]) chart.addEventListener(name, show);
    for (const name of ["pointerleave", "focusout"]) chart.addEventListener(name, () => { tip.hidden = true; });
  }
  addEventListener("wheel", () => { tip.hidden = true; }, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
}

tooltips();
start();
