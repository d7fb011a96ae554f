// The items that two runs score differently.
const FIELDS = ["change", "run", "task", "outcome", "sort", "view"];
const only = (change) => () => set("change", filter.change === change ? "" : change);
const ACTIONS = { w: only("worse"), b: only("better") };
const MOST_CELLS = 4e6;

const isListed = () => true;
const kind = (at) => coded(index.change, at);
const words = (line) => searched(line.a) + "\n" + searched(line.b);
const size = (at) => Math.abs((index.scores[at][1] || 0) - (index.scores[at][0] || 0));
const SORTS = { "largest change": [() => index.key.map((_, at) => size(at)), -1] };

function filters() {
  const change = codedFacet("change", "Change");
  change.always = true;
  const found = [change];
  for (const [name, title] of [["run", "Against"], ["task", "Task"], ["outcome", "Outcome"]])
    if (index[name].names.length > 1) found.push(codedFacet(name, title));
  return found;
}

const score = (value) => (value === null || value === undefined ? "no score" : `score ${Number(value.toPrecision(3))}`);

// What either run said and what is right, in a few words.
function judged(at) {
  const said = [index.before[at], index.after[at]], [first, second] = said[0] && said[1] && said[0] !== said[1] ? said : index.scores[at].map(score);
  return `${first} → ${second}${index.target[at] ? `, right ${index.target[at]}` : ""}`;
}

const messages = (line) => (line.r.request || {}).messages || [];
const media = (line) => JSON.stringify(messages(line).map((message) => (message.parts || []).map((part) => (part.image || {}).sha256)));
const wording = (line) => JSON.stringify(messages(line), (name, value) => (name === "image" ? "" : value));

function page(at, line) {
  const pair = [line.a, line.b], runs = index.sides[at];
  const sameMedia = media(line.a) === media(line.b), sameText = wording(line.a) === wording(line.b);
  const sameScoring = JSON.stringify([line.a.r.scoring]) === JSON.stringify([line.b.r.scoring]);
  const shared = el("div", { class: "pictures" }), elsewhere = () => el("div");
  const text = el("div", { class: "text" }, labelChips((line.a.r.scoring || {}).labels || line.a.v.labels || {}), el("h3", {}, "What was asked"));
  const turns = asked(line.a.r, { images: sameMedia ? shared : elsewhere(), run: runs[0] });
  if (sameText) text.append(...turns);
  const apart = [sameText ? "" : "the prompt", sameMedia ? "" : "the images"].filter(Boolean).join(" and ");
  if (apart) text.append(el("p", { class: "note" }, `The runs differ in ${apart}: both are below.`));
  if (sameScoring && !(line.a.r.response || {}).scores) text.append(...optionList(line.a.r.scoring || {}));
  const marks = sameText ? null : differences(...pair.map(promptTexts));
  const sides = el("div", { class: "sides" }, ...pair.map((side, number) => {
    const verdict = side.v, found = marking(String(verdict.outcome || side.r.outcome || ""), verdict.score), pictures = el("div", { class: "pictures" });
    const said = verdict.extracted ? `said ${verdict.extracted}` : found === "scored" || verdict.outcome === "scored" ? score(verdict.score) : found;
    const block = el("section", { class: "side", "aria-label": index.runs[runs[number]] },
      el("h3", { class: "run " + found }, el("span", { class: "sign", "aria-label": found }, SIGNS[found] || "·"), " ", el("b", {}, index.runs[runs[number]]), ` ${said}`));
    const prompt = sameText && sameMedia ? [] : asked(side.r, { images: sameMedia ? elsewhere() : pictures, run: runs[number], write: marks ? () => marks[number].shift() : undefined });
    block.append(pictures, ...(sameText ? [] : prompt), ...answered(side.r, verdict, runs[number]));
    block.append(el("details", {}, el("summary", {}, "How it was read"), reading(side.r, verdict), ...(sameScoring ? [] : optionList(side.r.scoring || {})), ...judgement(verdict)), call(side.r));
    return block;
  }));
  return [heading(at), shared.childElementCount ? el("div", { class: "beside-text" }, shared, text) : text, sides];
}

// The texts of a prompt, one for each block that shows it.
function promptTexts(line) {
  const found = [];
  asked(line.r, { images: el("div"), write: (text) => { found.push(text); return ""; } });
  return found;
}

// Two prompts as blocks, with the words that only one of them has marked.
function differences(one, other) {
  const tokens = (found) => found.flatMap((text, block) => (text.match(/[\p{L}\p{N}]+|\s+|[^\p{L}\p{N}\s]/gu) || []).map((word) => ({ word, block, differs: true })));
  const left = tokens(one), right = tokens(other);
  align(left, right);
  return [[one, left, "del"], [other, right, "ins"]].map(([found, all, tag]) => {
    const blocks = found.map(() => el("pre", { class: "said-block" }));
    for (let at = 0, next; at < all.length; at = next) {
      const { block, differs } = all[at];
      for (next = at; next < all.length && all[next].block === block && all[next].differs === differs; next++);
      const text = all.slice(at, next).map((token) => token.word).join("");
      blocks[block].append(differs ? el(tag, {}, text) : text);
    }
    return blocks;
  });
}

// Takes the mark from a longest common subsequence of two lists of words.
function align(left, right) {
  let start = 0, ends = [left.length, right.length];
  const same = (a, b) => left[a].word === right[b].word, keep = (a, b) => { left[a].differs = right[b].differs = false; };
  while (start < Math.min(...ends) && same(start, start)) { keep(start, start); start++; }
  while (ends[0] > start && ends[1] > start && same(ends[0] - 1, ends[1] - 1)) { ends = [ends[0] - 1, ends[1] - 1]; keep(...ends); }
  const rows = ends[0] - start, width = ends[1] - start + 1;
  if ((rows + 1) * width > MOST_CELLS) return;
  const lengths = new Uint16Array((rows + 1) * width);
  for (let a = rows - 1; a >= 0; a--) for (let b = width - 2; b >= 0; b--)
    lengths[a * width + b] = same(start + a, start + b) ? lengths[(a + 1) * width + b + 1] + 1 : Math.max(lengths[(a + 1) * width + b], lengths[a * width + b + 1]);
  for (let a = 0, b = 0; a < rows && b < width - 1;) {
    if (same(start + a, start + b)) keep(start + a++, start + b++);
    else if (lengths[(a + 1) * width + b] >= lengths[a * width + b + 1]) a++; else b++;
  }
}

start();
