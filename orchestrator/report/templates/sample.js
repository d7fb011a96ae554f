// What one item is made of: prompt, images, clips, answer, reading.

// How an item is marked: by its score where it was scored, else by its outcome.
function marking(outcome, score) {
  if (outcome !== "scored") return outcome;
  if (score === null || score === undefined) return "scored";
  return score >= 1 ? "right" : score <= 0 ? "wrong" : "partial";
}

// The text of an item that a search looks through.
function searched(line) {
  const said = [line.r.key, line.v.key, line.v.extracted, line.v.detail, line.v.judge && line.v.judge.words, line.r.error && line.r.error.message];
  const request = line.r.request || {}, response = line.r.response || {};
  for (const message of request.messages || []) for (const part of message.parts || []) said.push(part.text);
  for (const part of response.parts || []) said.push(part.text);
  for (const option of (line.r.scoring || {}).options || []) said.push(option);
  for (const continuation of request.continuations || []) said.push(continuation);
  return said.filter(Boolean).join("\n").toLowerCase();
}

// Images are in the folder of their run; a page of one run is in it.
function address(name, run) {
  const inside = $("image-" + name);
  return inside ? inside.textContent : `${index.folders ? index.folders[run || 0] : ""}images/${name}`;
}

function thumbnail(name) {
  const frame = el("span", { class: "thumb", "aria-hidden": "true" });
  if (/^[0-9a-f]{64}$/.test(name)) {
    const node = el("img", { src: address(name, index.image_run), loading: "lazy", decoding: "async", alt: "", onerror: () => node.remove() });
    frame.append(node);
  }
  return frame;
}

function picture(image, run) {
  const name = String(image.sha256 || "");
  if (!/^[0-9a-f]{64}$/.test(name)) return el("span", { class: "missing" }, "an image without a name");
  const source = address(name, run);
  const node = el("img", { src: source, loading: "lazy", decoding: "async", alt: `${image.media_type || "image"}, ${Number(image.bytes_length || 0).toLocaleString("en")} bytes`, tabindex: "0",
    onclick: () => zoom(source), onkeydown: (event) => { if (event.key === "Enter") zoom(source); },
    onerror: () => node.replaceWith(el("span", { class: "missing" }, `image ${name.slice(0, 12)} is not beside this page`)) });
  return node;
}

// What was sent, whole, and beneath it what of it was to be heard or seen.
function clip(kind, medium, run) {
  const name = String(medium.sha256 || "");
  if (!/^[0-9a-f]{64}$/.test(name)) return [el("span", { class: "missing" }, `${kind} without a name`)];
  const node = el(kind, { src: address(name, run), controls: "", preload: "metadata",
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

// Texts and media of a message or an answer. Where `images` is given, its images go there, and if there are several a
// word marks the place of each. Where `write` is given, it makes the block of a text.
function parts(block, found, { span, images, run, write }) {
  let text = "";
  const flush = () => { if (text) block.append(write ? write(text) : marked(text, span)); text = ""; };
  const several = found.filter((part) => part.image).length > 1;
  for (const part of found) {
    if (part.text !== undefined) text += part.text;
    else if (part.image && images) {
      images.append(picture(part.image, run));
      if (several) { flush(); block.append(el("span", { class: "place" }, `image ${images.childElementCount}`)); }
    } else if (part.image) { if (!span) flush(); block.append(picture(part.image, run)); }
    else if (part.tool_call) text += `${text ? "\n" : ""}[calls ${part.tool_call.name} with ${part.tool_call.arguments || "nothing"}]`;
    else if (part.tool_result) { flush(); parts(block, part.tool_result.content || [], { run, write }); }
    else if (part.audio || part.video) { if (!span) flush(); block.append(...clip(part.audio ? "audio" : "video", part.audio || part.video, run)); }
  }
  flush();
}

// One answer of a trajectory.
function callStep(line, number) {
  const response = line.response || {}, usage = response.usage || {}, tokens = usage.output_tokens ? `, ${Number(usage.output_tokens).toLocaleString("en")} ${Number(usage.output_tokens) === 1 ? "token" : "tokens"}` : "";
  const block = el("div", { class: "turn answer" }, el("div", { class: "who" }, `call ${number}${tokens}`));
  if (response.reasoning) block.append(el("pre", { class: "said-block reasoned" }, response.reasoning));
  if (line.error) block.append(el("pre", { class: "said-block" }, line.error.message));
  parts(block, (response.parts || []).filter((part) => !part.tool_call), {});
  return block;
}

// What came of a tool: a crop stands beside the place in the image that it was cut from. `pictures` grows by its images.
function toolStep(tool, pictures) {
  const call = tool.tool_call || {}, content = tool.content || [];
  const block = el("div", { class: "turn tool" + (tool.is_error ? " failed" : "") }, el("div", { class: "who" }, (tool.is_error ? "error of " : "") + (call.name || "a call that cannot be read")),
    el("pre", { class: "said-block" }, call.arguments || ""));
  for (const part of content) {
    const source = part.image && pictures[part.source];
    if (source && Array.isArray(part.box)) block.append(el("div", { class: "cut" }, place(source, part.box, part.source_size), picture(part.image)));
    else parts(block, [part], {});
    if (part.image) pictures.push(part.image);
  }
  return block;
}

// An image with a box on it, in pixels of the image as the tool saw it.
function place(image, box, size) {
  const shown = picture(image), frame = el("div", { class: "placed" }, shown), mark = drawn("svg", { preserveAspectRatio: "none", "aria-hidden": "true" });
  const [left, top, right, bottom] = box.map(Number);
  mark.append(drawn("rect", { x: left, y: top, width: Math.max(0, right - left), height: Math.max(0, bottom - top) }));
  const fit = (width, height) => { mark.setAttribute("viewBox", `0 0 ${width} ${height}`); frame.append(mark); };
  if (Array.isArray(size)) fit(Number(size[0]), Number(size[1]));
  else shown.addEventListener("load", () => fit(shown.naturalWidth, shown.naturalHeight));
  return frame;
}

function drawn(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
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

function heading(at) {
  const link = el("a", { href: "#" + new URLSearchParams({ sample: index.key[at] }), title: "a link to this sample" }, "link"), found = kind(at);
  return el("header", {}, el("p", { class: "judged " + found }, el("span", { class: "sign", "aria-label": found }, SIGNS[found] || "·"), " ", judged(at)), el("h2", {}, index.key[at]), link);
}

function labelChips(labels) {
  const chips = el("div", { class: "chips" });
  for (const [name, value] of Object.entries(labels))
    chips.append(el("button", { class: "chip", type: "button", title: "only these", onclick: () => set("label." + name, value) }, el("b", {}, name), value || "–"));
  return chips;
}

function asked(response, how) {
  return ((response.request || {}).messages || []).map((message) => {
    const turn = el("div", { class: "turn" }, el("div", { class: "who" }, String(message.role || "").replace("ROLE_", "").toLowerCase()));
    parts(turn, message.parts || [], how);
    return turn;
  });
}

function answered(response, verdict, run) {
  const answer = response.response || {}, usage = answer.usage || {}, scoring = response.scoring || {}, out = [];
  const turn = el("div", { class: "turn answer" });
  if (answer.reasoning) {
    const length = usage.reasoning_tokens ? `${usage.reasoning_tokens.toLocaleString("en")} tokens` : `${answer.reasoning.length.toLocaleString("en")} characters`;
    out.push(el("details", { class: "reasoning" }, el("summary", {}, `Its reasoning, ${length}`), marked(answer.reasoning)));
  }
  if (response.error) turn.append(pairs([["status", response.error.code], ["reason", response.error.reason], ["message", response.error.message]]));
  else if (answer.scores) turn.append(likelihoods((response.request || {}).continuations || [], answer.scores, scoring.options || [], scoring.targets || [], verdict.extracted));
  else if ((answer.parts || []).length) parts(turn, answer.parts, { span: verdict.span, run });
  else turn.append(el("span", { class: "muted" }, "nothing at all"));
  if (answer.finish_reason === "FINISH_REASON_MAX_TOKENS") turn.append(el("p", { class: "note" }, "Cut at the limit of output tokens."));
  return [...out, turn];
}

function reading(response, verdict) {
  const scoring = response.scoring || {};
  return pairs([["rule", verdict.rule || scoring.rule], ["extracted", verdict.extracted], ["target", (scoring.targets || []).join(" | ")], ["score", verdict.score],
    ...Object.entries(verdict.scores || {}).map(([name, value]) => ["– " + name, value]), ["reason", verdict.reason], ["in words", verdict.detail]]);
}

function optionList(scoring) {
  if (!(scoring.options || []).length) return [];
  const options = el("ol", { class: "options" }), targets = (scoring.targets || []).map(bare), names = called(scoring.options, targets, scoring.params);
  scoring.options.forEach((option, place) => options.append(el("li", { class: targets.includes(names ? names[place] : bare(option)) ? "target" : "" },
    ...(names ? [el("b", {}, names[place])] : []), option)));
  return [el("h3", {}, "Options"), options];
}

function judgement(verdict) {
  if (!verdict.judge) return [];
  const who = `${verdict.judge.model || "judge"}${verdict.judge.cached ? ", from the cache" : ""}`;
  return [el("h3", {}, "What the judge said"), el("div", { class: "turn" }, el("div", { class: "who" }, who), marked(verdict.judge.words || ""))];
}

function call(response) {
  const request = response.request || {}, answer = response.response || {}, usage = answer.usage || {}, scoring = response.scoring || {};
  const ended = String(answer.finish_reason || "").replace("FINISH_REASON_", "").toLowerCase();
  return el("details", {}, el("summary", {}, "The call"),
    pairs([["replica", response.replica], ["seconds", response.seconds], ["attempts", response.attempts], ["begun", response.started], ["group", scoring.group],
      ["input tokens", usage.input_tokens], ["of images", usage.image_tokens], ["of audio", usage.audio_tokens], ["of videos", usage.video_tokens],
      ["frames seen", (usage.media || []).map((medium) => medium.frames).filter(Boolean).join(", ")], ["cached", usage.cached_tokens], ["output tokens", usage.output_tokens], ["of reasoning", usage.reasoning_tokens], ["ended by", ended], ...Object.entries(response.facts || {}).map(([name, value]) => [name.replaceAll("_", " "), value])]),
    el("pre", {}, JSON.stringify({ config: request.config, modality: request.modality, effective_config: answer.effective_config, params: scoring.params }, null, 2)));
}
