"use strict";
// Everything a model or a data set wrote reaches the page as text, through textContent alone.
(() => {
  const ROW = 74, CELL = 176, CELL_ROW = 204, AHEAD = 8;
  const SIGNS = { right: "✓", wrong: "✗", partial: "◐", unparsed: "?", refused: "⊘", rejected: "!", unjudged: "~", failed: "!", step: "→", pending: "…", scored: "·" };
  const $ = (id) => document.getElementById(id);
  const panes = document.querySelector(".panes"), list = $("list"), space = $("space"), detail = $("detail"), status = $("status"), controls = $("controls");
  let index, labels, position, samples;
  let shown = [], selected = -1, filter = {}, search = 0;
  const chunks = new Map(), texts = new Map(), rows = new Map();

  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return node;
  }

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

  // How an item is marked: by its score where it was scored, else by its outcome.
  function kind(at) {
    const outcome = coded(index.outcome, at), score = index.score[at];
    if (outcome !== "scored") return outcome;
    if (score === null) return "scored";
    return score >= 1 ? "right" : score <= 0 ? "wrong" : "partial";
  }
  const isWrong = (at) => { const found = kind(at); return found === "wrong" || found === "unparsed" || found === "refused"; };

  // ---- filters -------------------------------------------------------------------------------
  const FIELDS = ["outcome", "verdict", "task", "reason", "sort", "view"];
  const MOST_VALUES = 200;
  // Each filter: its name, what it is called, its values, the number of an item's value (-1 for none) and, for a label,
  // the values that occur in each task.
  let facets = [];

  function facet(name, title, names, code, tasks) {
    const options = names.map((value) => el("option", { value }));
    const select = el("select", { name, onchange: () => { set(name, select.value); } }, el("option", { value: "" }, "all"), ...options);
    return { name, title, names, code, tasks, options, label: el("label", {}, title, select) };
  }

  const VERDICTS = ["right", "wrong", "partial"];
  function verdict(at) {
    const found = kind(at);
    return found === "right" ? 0 : found === "partial" ? 2 : isWrong(at) ? 1 : -1;
  }

  const numeric = new Intl.Collator("en", { numeric: true });
  function labelFacet(name) {
    const column = index.labels[name], tasks = index.task.names.map(() => new Set());
    column.codes.forEach((code, at) => { if (code >= 0) tasks[index.task.codes[at]].add(code); });
    const order = column.names.map((_, code) => code).sort((a, b) => numeric.compare(column.names[a], column.names[b]));
    const places = new Array(order.length);
    order.forEach((code, place) => { places[code] = place; });
    return facet("label." + name, name, order.map((code) => column.names[code]), (at) => { const code = column.codes[at]; return code < 0 ? -1 : places[code]; }, tasks);
  }

  // A label is offered where it tells items of the chosen task apart; without a task, of every task.
  function applies(one) {
    if (filter[one.name] !== undefined || !one.tasks) return true;
    const chosen = index.task.names.indexOf(filter.task);
    return chosen >= 0 ? one.tasks[chosen].size > 1 : one.names.length > 1 && one.tasks.every((values) => values.size > 0);
  }

  // How often each value occurs among the items that pass all other filters.
  function count(one, counts) {
    const all = one.name === "verdict" || one.name === "outcome" || filter[one.name] !== undefined;
    one.options.forEach((option, place) => {
      option.textContent = `${one.names[place]} (${counts[place].toLocaleString("en")})`;
      option.hidden = option.disabled = !counts[place] && filter[one.name] !== one.names[place];
    });
    one.label.hidden = !applies(one) || (!all && counts.filter(Boolean).length < 1);
  }

  const SORTS = {
    "lowest score": [() => index.score, 1], "highest score": [() => index.score, -1],
    "longest answer": [() => index.length, -1], "shortest answer": [() => index.length, 1], "slowest": [() => index.seconds, -1],
  };

  function build() {
    const column = (name) => (at) => index[name].codes[at];
    facets = [facet("verdict", "Right or wrong", VERDICTS, verdict), facet("outcome", "Outcome", index.outcome.names, column("outcome"))];
    if (index.task.names.length > 1) facets.push(facet("task", "Task", index.task.names, column("task")));
    if (index.reason.names.length) facets.push(facet("reason", "Reason", index.reason.names, column("reason")));
    for (const name of labels) if (index.labels[name].names.length > 1 && index.labels[name].names.length <= MOST_VALUES) facets.push(labelFacet(name));
    controls.append(...facets.map((one) => one.label));
    const sort = el("select", { name: "sort", onchange: () => { set("sort", sort.value); } }, el("option", { value: "" }, "as in the data"));
    for (const [name, [values]] of Object.entries(SORTS)) if (new Set(values()).size > 1) sort.append(el("option", { value: name }, name));
    let timer;
    const text = el("input", { type: "search", name: "q", placeholder: "prompt, answer, key, judge", autocomplete: "off", spellcheck: "false",
      oninput: () => { clearTimeout(timer); timer = setTimeout(() => set("q", text.value), 150); } });
    controls.append(el("label", {}, "Sort", sort), el("label", { class: "grow" }, "Text", text), el("button", { type: "button", onclick: clear }, "Clear"),
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
    const outcome = coded(index.outcome, at);
    if (outcome === "step" && filter.outcome === undefined) return undefined;
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

  function words(line) {
    const said = [line.r.key, line.v.key, line.v.extracted, line.v.detail, line.v.judge && line.v.judge.words, line.r.error && line.r.error.message];
    const request = line.r.request || {}, response = line.r.response || {};
    for (const message of request.messages || []) for (const part of message.parts || []) said.push(part.text);
    for (const part of response.parts || []) said.push(part.text);
    for (const option of (line.r.scoring || {}).options || []) said.push(option);
    for (const continuation of request.continuations || []) said.push(continuation);
    return said.filter(Boolean).join("\n").toLowerCase();
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
    const all = index.outcome.codes.filter((code) => index.outcome.names[code] !== "step").length;
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

  // ---- the list ------------------------------------------------------------------------------
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

  function row(place) {
    const at = shown[place], found = kind(at), question = coded(index.question, at), said = judged(at);
    const node = el("div", { class: "row " + found, role: "option", id: "row-" + at, "aria-selected": String(at === selected),
      "aria-posinset": place + 1, "aria-setsize": shown.length, onclick: () => { if (filter.view) { selected = at; filter.sample = index.key[at]; set("view", ""); open(at); } else select(place, true); } },
      thumbnail(coded(index.image, at)), el("span", { class: "sign", "aria-label": found, title: found }, SIGNS[found] || "·"),
      el("span", { class: "took", title: said }, said), el("span", { class: "name", title: index.key[at] }, index.key[at]),
      el("span", { class: "said", title: question }, question || index.answer[at] || " "));
    if (filter.view) {
      const width = list.clientWidth / columns;
      node.style.left = (place % columns) * width + "px";
      node.style.width = width + "px";
    }
    node.style.top = Math.floor(place / columns) * height + "px";
    return node;
  }

  function address(name) {
    const inside = $("image-" + name);
    return inside ? inside.textContent : "images/" + name;
  }

  function thumbnail(name) {
    const frame = el("span", { class: "thumb", "aria-hidden": "true" });
    if (/^[0-9a-f]{64}$/.test(name)) {
      const node = el("img", { src: address(name), loading: "lazy", decoding: "async", alt: "", onerror: () => node.remove() });
      frame.append(node);
    }
    return frame;
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

  // ---- one sample ----------------------------------------------------------------------------
  async function open(at) {
    const line = await item(at);
    if (at !== selected) return;
    detail.replaceChildren(...page(at, line.r, line.v));
    detail.scrollTop = 0;
  }

  function picture(image) {
    const name = String(image.sha256 || "");
    if (!/^[0-9a-f]{64}$/.test(name)) return el("span", { class: "missing" }, "an image without a name");
    const source = address(name);
    const node = el("img", { src: source, loading: "lazy", decoding: "async", alt: `${image.media_type || "image"}, ${Number(image.bytes_length || 0).toLocaleString("en")} bytes`, tabindex: "0",
      onclick: () => zoom(source), onkeydown: (event) => { if (event.key === "Enter") zoom(source); },
      onerror: () => node.replaceWith(el("span", { class: "missing" }, `image ${name.slice(0, 12)} is not beside this page`)) });
    return node;
  }

  // What was sent, whole, and beneath it what of it was to be heard or seen.
  function clip(kind, medium) {
    const name = String(medium.sha256 || "");
    if (!/^[0-9a-f]{64}$/.test(name)) return [el("span", { class: "missing" }, `${kind} without a name`)];
    const node = el(kind, { src: address(name), controls: "", preload: "metadata",
      onerror: () => node.replaceWith(el("span", { class: "missing" }, `${kind} ${name.slice(0, 12)} cannot be played by this browser, or is not beside this page`)) });
    const span = medium.span || {}, sampling = medium.sampling || {}, said = [];
    if (span.start || span.end) said.push(`${span.start || "0s"} to ${span.end || "its end"}`);
    if (sampling.count) said.push(`${sampling.count} frames`);
    if (sampling.per_second) said.push(`${sampling.per_second} frames a second` + (sampling.max_count ? `, at most ${sampling.max_count}` : ""));
    return said.length ? [node, el("span", { class: "who" }, said.join("; "))] : [node];
  }

  function zoom(source) {
    const box = $("zoom");
    box.replaceChildren(el("img", { src: source, alt: "the image, enlarged" }));
    box.showModal();
  }

  // `spans` are half-open ranges of code points, as the scorer counts.
  function marked(text, span) {
    const block = el("pre", { class: "said-block" });
    if (!span || !((span.end || 0) > (span.start || 0))) { found(block, text); return block; }
    const points = Array.from(text), start = span.start || 0;
    found(block, points.slice(0, start).join(""));
    block.append(el("mark", { title: "what was extracted" }, points.slice(start, span.end).join("")));
    found(block, points.slice(span.end).join(""));
    return block;
  }

  // What is searched for is outlined.
  function found(block, text) {
    const wanted = (filter.q || "").toLowerCase(), low = text.toLowerCase();
    let at = 0;
    if (wanted && low.length === text.length) {
      for (let next = low.indexOf(wanted); next >= 0; next = low.indexOf(wanted, at)) {
        block.append(text.slice(at, next), el("mark", { class: "found" }, text.slice(next, next + wanted.length)));
        at = next + wanted.length;
      }
    }
    block.append(text.slice(at));
  }

  // Images of a prompt go beside the text, where a word marks their place if there are several.
  function parts(block, found, span, images) {
    let text = "";
    const flush = () => { if (text) block.append(marked(text, span)); text = ""; };
    const several = found.filter((part) => part.image).length > 1;
    for (const part of found) {
      if (part.text !== undefined) text += part.text;
      else if (part.image && images) {
        images.append(picture(part.image));
        if (several) { flush(); block.append(el("span", { class: "place" }, `image ${images.childElementCount}`)); }
      } else if (part.image) { if (!span) flush(); block.append(picture(part.image)); }
      else if (part.audio || part.video) { if (!span) flush(); block.append(...clip(part.audio ? "audio" : "video", part.audio || part.video)); }
    }
    flush();
  }

  function pairs(entries) {
    const block = el("dl", { class: "verdict" });
    for (const [name, value] of entries) if (value !== undefined && value !== null && value !== "") block.append(el("dt", {}, name), el("dd", {}, typeof value === "number" ? String(Number(value.toPrecision(5))) : String(value)));
    return block;
  }

  const bare = (name) => String(name).replace(/^\((.*)\)$/, "$1");

  // What the options were called where the key says so and their own words do not: as rule `choice` names them, by place.
  function called(options, targets, params) {
    const given = params && params.labels;
    const names = Array.isArray(given) ? given.map(bare) : options.map((_, place) => String.fromCharCode(65 + place));
    const own = options.map(bare);
    return names.length === options.length && targets.length && targets.every((target) => names.includes(target) && !own.includes(target)) ? names : null;
  }

  function page(at, response, verdict) {
    const found = kind(at), scoring = response.scoring || {}, request = response.request || {}, answer = response.response || {}, out = [], head = document.createDocumentFragment();
    const link = el("a", { href: "#" + new URLSearchParams({ sample: index.key[at] }), title: "a link to this sample" }, "link");
    head.append(el("header", {}, el("p", { class: "judged " + found }, el("span", { class: "sign", "aria-label": found }, SIGNS[found] || "·"), " ", judged(at)), el("h2", {}, index.key[at]), link));
    const chips = el("div", { class: "chips" });
    for (const [name, value] of Object.entries(scoring.labels || verdict.labels || {}))
      chips.append(el("button", { class: "chip", type: "button", title: "only these", onclick: () => set("label." + name, value) }, el("b", {}, name), value || "–"));
    out.push(chips);
    out.push(...steps(at));

    out.push(el("h3", {}, "What was asked"));
    const images = el("div", { class: "pictures" });
    for (const message of request.messages || []) {
      const turn = el("div", { class: "turn" }, el("div", { class: "who" }, String(message.role || "").replace("ROLE_", "").toLowerCase()));
      parts(turn, message.parts || [], undefined, images);
      out.push(turn);
    }
    out.push(el("h3", {}, "What it answered"));
    const turn = el("div", { class: "turn answer" }), usage = answer.usage || {};
    if (answer.reasoning) {
      const length = usage.reasoning_tokens ? `${usage.reasoning_tokens.toLocaleString("en")} tokens` : `${answer.reasoning.length.toLocaleString("en")} characters`;
      out.push(el("details", { class: "reasoning" }, el("summary", {}, `Its reasoning, ${length}`), marked(answer.reasoning)));
    }
    if (response.error) turn.append(pairs([["status", response.error.code], ["reason", response.error.reason], ["message", response.error.message]]));
    else if (answer.scores) turn.append(likelihoods(request.continuations || [], answer.scores, scoring.options || [], scoring.targets || [], verdict.extracted));
    else if ((answer.parts || []).length) parts(turn, answer.parts, verdict.span);
    else turn.append(el("span", { class: "muted" }, "nothing at all"));
    if (answer.finish_reason === "FINISH_REASON_MAX_TOKENS") turn.append(el("p", { class: "note" }, "Cut at the limit of output tokens."));
    out.push(turn);

    if (verdict.outcome || scoring.rule) {
      out.push(el("h3", {}, "How it was read"));
      out.push(pairs([["rule", verdict.rule || scoring.rule], ["extracted", verdict.extracted], ["target", (scoring.targets || []).join(" | ")], ["score", verdict.score],
        ...Object.entries(verdict.scores || {}).map(([name, value]) => ["– " + name, value]), ["reason", verdict.reason], ["in words", verdict.detail]]));
      if ((scoring.options || []).length && !answer.scores) {
        const options = el("ol", { class: "options" });
        const targets = (scoring.targets || []).map(bare), names = called(scoring.options, targets, scoring.params);
        scoring.options.forEach((option, place) => options.append(el("li", { class: targets.includes(names ? names[place] : bare(option)) ? "target" : "" },
          ...(names ? [el("b", {}, names[place])] : []), option)));
        out.push(el("h3", {}, "Options"), options);
      }
    }
    if (verdict.judge) {
      const said = el("div", { class: "turn" }, el("div", { class: "who" }, `${verdict.judge.model || "judge"}${verdict.judge.cached ? ", from the cache" : ""}`));
      said.append(marked(verdict.judge.words || ""));
      out.push(el("h3", {}, "What the judge said"), said);
    }
    out.push(el("details", {}, el("summary", {}, "The call"),
      pairs([["replica", response.replica], ["seconds", response.seconds], ["attempts", response.attempts], ["begun", response.started], ["group", scoring.group],
        ["input tokens", usage.input_tokens], ["of images", usage.image_tokens], ["of audio", usage.audio_tokens], ["of videos", usage.video_tokens], ["frames seen", (usage.media || []).map((medium) => medium.frames).filter(Boolean).join(", ")], ["cached", usage.cached_tokens], ["output tokens", usage.output_tokens], ["of reasoning", usage.reasoning_tokens], ["ended by", String(answer.finish_reason || "").replace("FINISH_REASON_", "").toLowerCase()]]),
      el("pre", {}, JSON.stringify({ config: request.config, modality: request.modality, effective_config: answer.effective_config, params: scoring.params }, null, 2))));
    const text = el("div", { class: "text" }, ...out);
    return images.childElementCount ? [head, el("div", { class: "beside-text" }, images, text)] : [head, text];
  }

  // The key less the turn's name, which the index has: a key may hold any number of colons.
  function sample(at) {
    const key = index.key[at], turn = coded(index.turn, at);
    return turn ? key.slice(0, -1 - turn.length) : key;
  }

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

  function steps(at) {
    const all = siblings(at);
    if (all.length < 2) return [];
    const block = el("div", { class: "chips" });
    for (const other of all) {
      const name = coded(index.turn, other) || "answer";
      block.append(el("button", { class: "chip tone-chip " + kind(other), type: "button", "aria-current": other === at ? "step" : null, onclick: () => jump(other) }, (other === at ? "• " : "") + name));
    }
    return [el("h3", {}, "All that was asked of this sample"), block];
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

  function likelihoods(continuations, scores, options, targets, extracted) {
    const body = el("tbody");
    // Targets name options by their texts, their letters or their places from 0: see the rule `likelihood`.
    const letters = options.map((_, at) => String.fromCharCode(65 + at)), places = options.map((_, at) => String(at));
    const names = [options, letters, places].find((names) => targets.every((target) => names.includes(target))) || options;
    const best = Math.max(...scores.map((score) => Number(score.logprob || 0)));
    scores.forEach((score, at) => {
      const option = options[at] || "", sum = Number(score.logprob || 0), count = Number(score.token_count || 1);
      const right = targets.includes(names[at]);
      body.append(el("tr", {}, el("td", {}, el("code", {}, continuations[at] || option)), el("td", { class: "number" }, sum.toFixed(3)), el("td", { class: "number" }, (sum / count).toFixed(3)), el("td", { class: "number" }, String(count)),
        el("td", {}, [sum === best ? "highest sum" : "", score.is_greedy ? "greedy" : "", right ? "target" : "", extracted !== undefined && extracted === names[at] ? "chosen" : ""].filter(Boolean).join(", "))));
    });
    const head = el("tr", {}, ...["Continuation", "log p, sum", "per token", "tokens", ""].map((name, at) => el("th", { scope: "col", class: at && at < 4 ? "number" : "" }, name)));
    return el("table", { class: "likelihoods" }, el("thead", {}, head), body);
  }

  // ---- address and keys ----------------------------------------------------------------------
  function remember() {
    const text = new URLSearchParams(filter).toString();
    if (text !== decodeURI(location.hash.slice(1)) && (text || location.hash.includes("="))) history.replaceState(null, "", "#" + text);
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
    const actions = { j: () => step(1), k: () => step(-1), w: () => set("verdict", filter.verdict === "wrong" ? "" : "wrong"), x: clear,
      "/": () => { controls.elements.q.focus(); }, "?": () => $("help").showModal(), "[": () => aside(-1), "]": () => aside(1),
      f: () => { controls.elements[0].focus(); }, s: () => { controls.elements.sort.focus(); }, g: toggle, z: () => { const image = detail.querySelector("img"); if (image) zoom(image.src); } };
    if (grid && selected >= 0) actions.Enter = toggle;
    if (grid && inList) Object.assign(actions, { ArrowRight: () => step(1), ArrowLeft: () => step(-1) });
    if (inList) Object.assign(actions, { ArrowDown: () => step(columns), ArrowUp: () => step(-columns), PageDown: () => step(page), PageUp: () => step(-page), Home: () => step(-shown.length), End: () => step(shown.length) });
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
    if (event.key !== "?" && $("samples").getBoundingClientRect().top > innerHeight * 0.6) $("samples").scrollIntoView();
  }

  function aside(by) {
    if (selected < 0) return;
    const all = siblings(selected), at = all.indexOf(selected) + by;
    if (at >= 0 && at < all.length) jump(all[at]);
  }

  // ---- tooltips of the charts ----------------------------------------------------------------
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

  async function start() {
    tooltips();
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
  start();
})();
