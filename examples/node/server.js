// A model server for Lyncean from the .proto alone. The "model" is forty lines at the top: it reads the options in the
// prompt and names one; put yours in its place. Run: npm install && node server.js --port 50051
import { createHash, randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";
import { ReflectionService } from "@grpc/reflection";
import { HealthImplementation } from "grpc-health-check";

const [LIMIT, CONTEXT, PIXELS, IMAGE_TOKENS] = [64 * 1024 * 1024, 4096, 100e6, 64];
const SERVICE = "lyncean.model.v1.ModelService";
const servedBy = { modelRevision: "1", bootId: randomUUID() };

// ---- the model: words are tokens, and what it says depends on the prompt alone ----
const words = (text) => text.match(/\s*\S+/g) ?? [];
const fraction = (text) => createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32;
const logprob = (prompt, token, greedy) => Math.log(greedy ? 0.9 : 0.09 * fraction(`${prompt}|${token}`) + 1e-6);

function continueText(prompt, config) {
  const options = [...prompt.matchAll(/^\(?([A-J1-9])[.)]/gm)].map((match) => match[1]);
  const tokens = words(options.length ? `The answer is ${options[Math.floor(fraction(prompt) * options.length)]}.` : "I see nothing to choose from here.");
  const kept = tokens.slice(0, config.maxOutputTokens);
  let text = kept.join("");
  let reason = kept.length < tokens.length ? "FINISH_REASON_MAX_TOKENS" : "FINISH_REASON_END_OF_SEQUENCE";
  const cuts = config.stop.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
  if (cuts.length) [text, reason] = [text.slice(0, Math.min(...cuts)), "FINISH_REASON_STOP_STRING"];
  return { text, reason, tokens: kept.length };
}

// ---- images: this model sees their sha256; a real one would decode them, after the same checks ----
function checkImage(data) {
  const png = data.length > 32 && data.toString("latin1", 0, 8) === "\x89PNG\r\n\x1a\n";
  const jpeg = data.length > 4 && data.readUInt16BE(0) === 0xffd8;
  if (!png && !jpeg) throw invalid("bad_image", "an image is neither PNG nor JPEG");
  const whole = png ? data.toString("latin1", data.length - 8, data.length - 4) === "IEND" : data.readUInt16BE(data.length - 2) === 0xffd9;
  if (!whole) throw invalid("bad_image", "an image file is cut short");
  const [width, height] = png ? [data.readUInt32BE(16), data.readUInt32BE(20)] : jpegSize(data);
  if (width * height > PIXELS) throw invalid("image_too_large", `an image has ${width} x ${height} pixels, the limit is ${PIXELS}`);
}
function jpegSize(data) {
  for (let at = 2; at + 9 < data.length; at += 2 + data.readUInt16BE(at + 2)) {
    const marker = data[at + 1];
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) return [data.readUInt16BE(at + 7), data.readUInt16BE(at + 5)];
  }
  throw invalid("bad_image", "a JPEG file has no frame");
}

// ---- the contract ----
class Refusal extends Error {
  constructor(code, reason, message) { super(message); Object.assign(this, { code, reason }); }
}
const invalid = (reason, message) => new Refusal(grpc.status.INVALID_ARGUMENT, reason, message);
const unimplemented = (reason, message) => new Refusal(grpc.status.UNIMPLEMENTED, reason, message);

function render(messages) {
  if (!messages.length) throw invalid("no_messages", "the request has no messages");
  if (messages.at(-1).role !== "ROLE_USER") throw invalid("last_role", "the last message must be the user's");
  const images = messages.flatMap(({ parts }) => parts).filter(({ kind }) => kind === "image").length;
  const prompt = messages.map(({ role, parts }, index) => {
    if (!["ROLE_SYSTEM", "ROLE_USER", "ROLE_ASSISTANT"].includes(role)) throw invalid("no_role", `messages[${index}] has no role`);
    if (role === "ROLE_SYSTEM" && index > 0) throw invalid("system_role", `messages[${index}]: a system message comes first`);
    if (!parts.length) throw invalid("no_parts", `messages[${index}] has no parts`);
    return parts.map((part) => {
      if (part.kind === "text") return part.text;
      if (part.kind === "image") {
        const data = part.image.data ?? Buffer.alloc(0);
        checkImage(data);
        return `<image ${createHash("sha256").update(data).digest("hex")}>`;
      }
      throw invalid("empty_part", `messages[${index}] has a part without a kind`);
    }).join("\n");
  }).join("\n\n");
  if (!prompt.trim()) throw invalid("empty_prompt", "the prompt is empty");
  return { prompt, imageTokens: images * IMAGE_TOKENS, inputTokens: words(prompt).length + images * (IMAGE_TOKENS - 2) };
}
function fit(tokens, more) {
  if (tokens + more <= CONTEXT) return;
  throw new Refusal(grpc.status.OUT_OF_RANGE, "context_exceeded", `${tokens} and ${more} more tokens, the context is ${CONTEXT}`);
}

function generate({ messages, config, modality }) {
  const { prompt, inputTokens, imageTokens } = render(messages);
  const asked = config ?? { stop: [] };
  const effective = { maxOutputTokens: asked.maxOutputTokens ?? 256, temperature: asked.temperature ?? 0, topP: asked.topP ?? 1,
    topK: asked.topK ?? 0, seed: asked.seed ?? 0, stop: asked.stop, topLogprobs: 0 };
  if (effective.maxOutputTokens === 0) throw invalid("max_output_tokens", "max_output_tokens is 0; ask for at least 1");
  if (!(effective.temperature >= 0)) throw invalid("temperature", `temperature is ${effective.temperature}; it is 0 or more`);
  if (!(effective.topP > 0 && effective.topP <= 1)) throw invalid("top_p", `top_p is ${effective.topP}; it is above 0 and at most 1`);
  if (effective.stop.includes("")) throw invalid("stop", "a stop string is empty");
  if (asked.topLogprobs) throw unimplemented("no_logprobs", "output log-probabilities are not implemented");
  if (modality === "MODALITY_IMAGE") throw unimplemented("no_image_output", "this model makes text only");
  if (effective.temperature > 0) throw unimplemented("no_sampling", "this model decodes greedily only");
  fit(inputTokens, effective.maxOutputTokens);
  const { text, reason, tokens } = continueText(prompt, effective);
  return { parts: [{ text }], finishReason: reason, effectiveConfig: effective, servedBy, usage: { inputTokens, imageTokens, outputTokens: tokens } };
}
function likelihood({ messages, continuations, returnTokens }) {
  const { prompt, inputTokens, imageTokens } = render(messages);
  if (!continuations.length) throw invalid("no_continuations", "there is nothing to score");
  if (continuations.includes("")) throw invalid("empty_continuation", "a continuation is empty");
  const best = words(continueText(prompt, { maxOutputTokens: CONTEXT, stop: [] }).text);
  const scores = continuations.map((continuation) => {
    const tokens = words(continuation).length ? words(continuation) : [continuation];
    fit(inputTokens, tokens.length);
    let isGreedy = true;
    const scored = tokens.map((token, index) => {
      isGreedy &&= token === best[index];
      return { token: Buffer.from(token), logprob: logprob(prompt + tokens.slice(0, index).join(""), token, isGreedy) };
    });
    const sum = scored.reduce((total, each) => total + each.logprob, 0);
    return { logprob: sum, tokenCount: tokens.length, isGreedy, tokens: returnTokens ? scored : [] };
  });
  return { scores, servedBy, usage: { inputTokens, imageTokens, outputTokens: scores.reduce((sum, { tokenCount }) => sum + tokenCount, 0) } };
}

const info = () => ({ modelName: "node-example", ...servedBy, serverVersion: "node-example 1.0.0", maxConcurrency: 8,
  capabilities: ["GENERATE", "LIKELIHOOD", "IMAGE_INPUT", "MULTI_IMAGE"].map((name) => `CAPABILITY_${name}`), maxRequestBytes: LIMIT, maxContextTokens: CONTEXT, computeDtype: "float64" });

// The one place where an exception becomes a status, with google.rpc.ErrorInfo in google.rpc.Status, written by hand.
const field = (number, data) => Buffer.concat([Buffer.from([number * 8 + 2]), varint(data.length), data]);
const varint = (value) => Buffer.from(value < 128 ? [value] : [(value & 127) | 128, ...varint(value >> 7)]);
function answer(handler) {
  return (call, callback) => {
    try { callback(null, handler(call.request)); } catch (error) {
      const { code = grpc.status.INTERNAL, reason = "internal_error" } = error;
      const details = error instanceof Refusal ? error.message : `${error.name} in the server; its log has the trace`;
      if (!(error instanceof Refusal)) console.error(error);
      const errorInfo = Buffer.concat([field(1, Buffer.from(reason)), field(2, Buffer.from("lyncean"))]);
      const any = Buffer.concat([field(1, Buffer.from("type.googleapis.com/google.rpc.ErrorInfo")), field(2, errorInfo)]);
      const metadata = new grpc.Metadata();
      metadata.set("grpc-status-details-bin", Buffer.concat([Buffer.from([8, code]), field(2, Buffer.from(details)), field(3, any)]));
      callback({ code, details, metadata });
    }
  };
}

const { host, port } = parseArgs({ options: { host: { type: "string", default: "127.0.0.1" }, port: { type: "string", default: "50051" } } }).values;
const protos = process.env.LYNCEAN_PROTOS ?? fileURLToPath(new URL("../../protos", import.meta.url));
const definition = loader.loadSync("lyncean/model/v1/model.proto", { includeDirs: [protos, `${protos}/third_party`], enums: String, oneofs: true, arrays: true, longs: Number });
const server = new grpc.Server({ "grpc.max_receive_message_length": LIMIT, "grpc.max_send_message_length": LIMIT });
server.addService(definition[SERVICE], { GetModelInfo: answer(info), Generate: answer(generate), Likelihood: answer(likelihood) });
const health = new HealthImplementation({ "": "SERVING", [SERVICE]: "SERVING" });
health.addToServer(server);
new ReflectionService(definition).addToServer(server);
server.bindAsync(`${host}:${port}`, grpc.ServerCredentials.createInsecure(), (error, bound) => {
  if (error) { console.error(`cannot listen on ${port}: ${error.message}`); process.exit(2); }
  console.log(`listening on ${host}:${bound}`);
});
process.on("SIGTERM", () => { health.setStatus(SERVICE, "NOT_SERVING"); server.tryShutdown(() => process.exit(0)); });
