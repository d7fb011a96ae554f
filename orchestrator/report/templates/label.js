"use strict";
// Everything a model or a data set wrote reaches the page as text, through textContent alone.
(() => {
  const $ = (id) => document.getElementById(id);
  const main = $("item"), status = $("status"), problem = $("problem"), score = $("score"), zoom = $("zoom"), toolbar = document.querySelector(".labelling");
  let keys = [], marks = [], queue = [], said = [], shown = -1, busy = true;

  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  }

  const block = (text) => el("pre", { class: "said-block" }, text);

  function picture(name, what) {
    const image = el("img", { src: "images/" + name, alt: "an image of " + what, onclick: () => enlarge(image.src) });
    return image;
  }

  function enlarge(address) {
    zoom.replaceChildren(el("img", { src: address, alt: "the image, enlarged" }));
    zoom.showModal();
  }

  // Images of what was asked go beside the text; a word marks the place of each if there are several.
  function parts(found, what, images) {
    const several = found.filter((part) => part.image).length > 1, nodes = [];
    for (const part of found) {
      if (part.text) nodes.push(block(part.text));
      else if (part.image && images) {
        images.append(picture(part.image.sha256, what));
        if (several) nodes.push(el("span", { class: "place" }, `image ${images.childElementCount}`));
      } else if (part.image) nodes.push(picture(part.image.sha256, what));
      else for (const kind of ["audio", "video"]) if (part[kind]) nodes.push(el(kind, { src: "images/" + part[kind].sha256, controls: "", preload: "metadata" }));
    }
    return nodes;
  }

  function draw(item) {
    const images = el("div", { class: "pictures" }), text = el("div", { class: "text" });
    text.append(el("h2", {}, "Question"));
    for (const message of item.messages) {
      const role = String(message.role || "").replace("ROLE_", "").toLowerCase(), turn = el("div", { class: "turn" });
      if (item.messages.length > 1) turn.append(el("div", { class: "who" }, role));
      turn.append(...parts(message.parts || [], "the question", images));
      text.append(turn);
    }
    const target = el("section", { class: "target" }, el("h2", {}, item.targets.length > 1 ? "Right is one of" : "Right is"));
    for (const one of item.targets) target.append(block(one));
    if (!item.targets.length) target.append(el("p", { class: "muted" }, "The data name no right answer."));
    const answer = el("section", { class: "given" }, el("h2", {}, "The model answered"), ...parts(item.answer, "the answer", null));
    text.append(el("div", { class: "versus" }, target, answer));
    const head = el("p", { class: "note" }, item.key);
    main.replaceChildren(head, images.childElementCount ? el("div", { class: "beside-text" }, images, text) : text);
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }

  const words = (mark) => (mark.score === null ? mark.mark : mark.score === 1 ? "right" : mark.score === 0 ? "wrong" : String(Number(mark.score.toPrecision(3))));

  function finish() {
    const unclear = marks.filter((mark) => mark && mark.score === null).length;
    main.replaceChildren(el("h1", {}, "All labelled"),
      el("p", {}, `${keys.length - unclear} labels${unclear ? `, ${unclear} unclear` : ""}, all saved. The run's report shows what labels and verdicts say together.`),
      el("button", { type: "button", onclick: compare }, "Where do the verdicts say otherwise?"));
  }

  // Whoever has seen verdicts labels no more: they would steer.
  async function compare() {
    const response = await fetch("api/disagreements", { cache: "no-store" });
    const rows = response.ok ? await response.json() : [];
    toolbar.hidden = busy = true;
    const body = rows.map((row) => el("tr", {}, el("td", {}, row.key), el("td", {}, words({ score: row.label })), el("td", {}, words({ score: row.score }))));
    const head = el("tr", {}, ...["Item", "Your label", "Verdict"].map((name) => el("th", { scope: "col" }, name)));
    main.replaceChildren(el("h1", {}, `The verdicts say otherwise in ${rows.length} of ${keys.length}`),
      ...(rows.length ? [el("div", { class: "scroll" }, el("table", { class: "beside" }, el("thead", {}, head), el("tbody", {}, ...body)))] : []));
  }

  function progress() {
    const done = marks.filter(Boolean).length;
    status.textContent = `${done} of ${keys.length} labelled`;
    $("progress").setAttribute("width", keys.length ? (1000 * done) / keys.length : 0);
  }

  async function show() {
    busy = true;
    progress();
    shown = queue.length ? queue[0] : -1;
    if (score) score.value = "";
    try {
      if (shown < 0) finish();
      else {
        const response = await fetch("api/items/" + shown, { cache: "no-store" });
        if (!response.ok) throw new Error(await response.text());
        draw(await response.json());
      }
      problem.textContent = "";
    } catch (error) {
      shown = -1;
      problem.textContent = `the item cannot be shown (${error.message}): is orchestrator label still running?`;
    }
    main.dataset.shown = shown < 0 ? "" : keys[shown];
    busy = false;
  }

  // Resolves once the label is on the disk.
  async function send(place, mark, value, kind) {
    const label = { key: keys[place], mark, ...(value === null ? {} : { score: value }), ...(kind ? { kind } : {}) };
    busy = true;
    try {
      const response = await fetch("api/label", { method: "POST", body: JSON.stringify(label), headers: { "Content-Type": "application/json", "X-Lyncean-Token": main.dataset.token } });
      if (!response.ok) throw new Error((await response.text()).trim());
      marks[place] = mark === "undone" ? null : { mark, score: value };
      return true;
    } catch (error) {
      problem.textContent = `not saved (${error.message}): press the key again`;
      return false;
    } finally {
      busy = false;
    }
  }

  async function label(mark, value, kind) {
    if (shown < 0 || !(await send(shown, mark, value, kind))) return;
    said.push(queue.shift());
    await show();
  }

  async function undo() {
    const last = said[said.length - 1];
    if (last === undefined) { problem.textContent = "nothing to take back since this page was opened"; return; }
    if (!(await send(last, "undone", null))) return;
    queue.unshift(said.pop());
    await show();
  }

  async function skip() {
    if (shown < 0) return;
    queue.push(queue.shift());
    await show();
  }

  const ACTIONS = { y: () => label("scored", 1), 1: () => label("scored", 1), n: () => label("scored", 0), 0: () => label("scored", 0), u: () => label("unclear", null), s: skip, z: undo, Backspace: undo };
  // With kinds of error a digit names one, and no answer is wrong without.
  const kinds = [...document.querySelectorAll("[data-kind]")];
  if (kinds.length) for (const key of ["n", "0", "1"]) delete ACTIONS[key];
  for (const { dataset } of kinds) ACTIONS[dataset.key] = () => label("scored", 0, dataset.kind);

  function number() {
    const value = Number(score.value.trim().replace(",", "."));
    if (score.value.trim() === "" || !(value >= 0 && value <= 1)) { problem.textContent = "a score is a number from 0 to 1"; return; }
    if (kinds.length && value === 0) { problem.textContent = "of a wrong answer choose the kind of error"; return; }
    score.blur();
    label("scored", value);
  }

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === score) {
      if (event.key === "Escape") score.blur();
      if (event.key === "Enter" && !busy) number();
      return;
    }
    if (zoom.open) return;
    const image = document.querySelector(".pictures img, .given img");
    if (event.key === "i" && image) enlarge(image.src);
    else if (event.key === "." && score) score.focus();
    // A key that is held down is one label.
    else if (!ACTIONS[event.key] || event.repeat || busy) return;
    else ACTIONS[event.key]();
    event.preventDefault();
  });
  for (const button of document.querySelectorAll("[data-key]")) button.addEventListener("click", () => { if (!busy) ACTIONS[button.dataset.key](); });
  zoom.addEventListener("click", () => zoom.close());

  async function start() {
    try {
      ({ keys, marks } = await (await fetch("api/state", { cache: "no-store" })).json());
    } catch (error) {
      problem.textContent = "the server does not answer";
      return;
    }
    queue = keys.map((_, place) => place).filter((place) => !marks[place]);
    await show();
  }
  start();
})();
