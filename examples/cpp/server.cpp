// A model server for Lynceus from the .proto alone. The "model" is at the top: it reads the options in the prompt and
// names one; put yours in its place. Build: cmake -S . -B build && cmake --build build; run: build/server 50051
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <cmath>
#include <csignal>
#include <iostream>
#include <numeric>
#include <regex>

#include "lynceus/model/v1/model.grpc.pb.h"

namespace pb = lynceus::model::v1;
using grpc::Status, grpc::StatusCode;
constexpr int kLimit = 64 << 20, kContext = 4096, kImageTokens = 64;
constexpr double kPixels = 100e6;

// ---- the model: words are tokens, and what it says depends on the prompt alone ----
struct Prompt { std::string text; int images = 0, tokens = 0; };

double Fraction(const std::string& text) { return double(std::hash<std::string>{}(text) % 1000003) / 1000003; }
using Tokens = std::vector<std::string>;
Tokens Words(const std::string& text) {
  static const std::regex word("\\s*\\S+|\\s+$");
  return {std::sregex_token_iterator(text.begin(), text.end(), word), {}};
}
Tokens Greedy(const std::string& prompt) {
  static const std::regex option("(^|\\n)\\(?([A-J1-9])[.)]");
  Tokens found{std::sregex_token_iterator(prompt.begin(), prompt.end(), option, 2), {}};
  if (found.empty()) return Words("I see nothing to choose from here.");
  return Words("The answer is " + found[size_t(Fraction(prompt) * found.size())] + ".");
}

// ---- the contract: a refusal is a status with google.rpc.ErrorInfo, in google.rpc.Status, written by hand ----
std::string Field(int number, const std::string& data) {
  std::string out(1, char(number * 8 + 2));
  size_t size = data.size();
  for (; size > 127; size >>= 7) out += char((size & 127) | 128);
  return out + char(size) + data;
}
Status Refuse(StatusCode code, const std::string& reason, const std::string& message) {
  const auto info = Field(1, "type.googleapis.com/google.rpc.ErrorInfo") + Field(2, Field(1, reason) + Field(2, "lynceus"));
  return Status(code, message, std::string{8, char(code)} + Field(2, message) + Field(3, info));
}
Status Invalid(const std::string& reason, const std::string& why) { return Refuse(StatusCode::INVALID_ARGUMENT, reason, why); }

Status CheckImage(const std::string& data) {  // a real model would decode it as well
  const size_t size = data.size();
  const auto big = [&](size_t at) { return uint8_t(data[at]) << 8 | uint8_t(data[at + 1]); };
  double pixels = -1;
  if (size > 32 && data.compare(0, 8, "\x89PNG\r\n\x1a\n", 8) == 0 && data.compare(size - 8, 4, "IEND") == 0)
    pixels = (big(16) * 65536.0 + big(18)) * (big(20) * 65536.0 + big(22));
  if (size > 4 && big(0) == 0xffd8 && big(size - 2) == 0xffd9)
    for (size_t at = 2; at + 9 < size && pixels < 0; at += 2 + big(at + 2))
      if (const int kind = big(at) - 0xffc0; kind >= 0 && kind < 16 && kind != 4 && kind != 8 && kind != 12)
        pixels = double(big(at + 5)) * big(at + 7);
  if (pixels < 0) return Invalid("bad_image", "an image is no whole PNG or JPEG file");
  return pixels > kPixels ? Invalid("image_too_large", "an image has more than 100000000 pixels") : Status::OK;
}

template <typename Messages>
Status Render(const Messages& messages, Prompt* out) {
  if (messages.empty()) return Invalid("no_messages", "the request has no messages");
  for (int i = 0; i < messages.size(); ++i) {
    const pb::Message& message = messages[i];
    if (message.role() < pb::ROLE_SYSTEM || message.role() > pb::ROLE_ASSISTANT) return Invalid("no_role", "no role");
    if (message.role() == pb::ROLE_SYSTEM && i > 0) return Invalid("system_role", "a system message comes first");
    if (message.parts().empty()) return Invalid("no_parts", "a message has no parts");
    for (const pb::Part& part : message.parts()) {
      if (part.kind_case() == pb::Part::KIND_NOT_SET) return Invalid("empty_part", "a part is neither text nor image");
      if (Status bad = part.has_image() ? CheckImage(part.image().data()) : Status::OK; !bad.ok()) return bad;
      out->images += part.has_image();
      out->text += part.has_image() ? "<" + std::to_string(Fraction(part.image().data())) + ">\n" : part.text() + "\n";
    }
  }
  if (messages[messages.size() - 1].role() != pb::ROLE_USER) return Invalid("last_role", "the last message must be the user's");
  out->tokens = int(Words(out->text).size()) + out->images * (kImageTokens - 1);
  return Status::OK;
}
Status Fit(int tokens, int64_t more) {
  if (tokens + more <= kContext) return Status::OK;
  return Refuse(StatusCode::OUT_OF_RANGE, "context_exceeded", std::to_string(tokens + more) + " tokens, the context is 4096");
}

class Service final : public pb::ModelService::Service {
  Status GetModelInfo(grpc::ServerContext*, const pb::GetModelInfoRequest*, pb::GetModelInfoResponse* out) override {
    out->set_model_name("cpp-example"), out->set_model_revision("1"), out->set_server_version("cpp-example 1.0.0");
    for (int each : {1, 2, 4, 7}) out->add_capabilities(pb::Capability(each));  // likelihood, images, several, generate
    out->set_max_concurrency(8), out->set_max_request_bytes(kLimit), out->set_max_context_tokens(kContext);
    return Status::OK;
  }
  Status Generate(grpc::ServerContext*, const pb::GenerateRequest* in, pb::GenerateResponse* out) override {
    const pb::GenerationConfig& asked = in->config();
    Prompt prompt;
    if (Status bad = Render(in->messages(), &prompt); !bad.ok()) return bad;
    if (asked.has_max_output_tokens() && !asked.max_output_tokens()) return Invalid("zero_tokens", "max_output_tokens is 0");
    if (!(asked.temperature() >= 0)) return Invalid("temperature", "temperature is below 0");
    if (asked.has_top_p() && !(asked.top_p() > 0 && asked.top_p() <= 1)) return Invalid("top_p", "top_p is outside (0, 1]");
    if (asked.temperature() > 0 || asked.top_logprobs() || in->modality() > pb::MODALITY_TEXT)
      return Refuse(StatusCode::UNIMPLEMENTED, "greedy_text_only", "this model says its most probable text and nothing else");
    pb::GenerationConfig* used = out->mutable_effective_config();
    *used = asked;
    used->set_temperature(0);
    if (!asked.has_max_output_tokens()) used->set_max_output_tokens(256);
    if (Status bad = Fit(prompt.tokens, used->max_output_tokens()); !bad.ok()) return bad;
    auto words = Greedy(prompt.text);
    const bool cut = words.size() > used->max_output_tokens();
    if (cut) words.resize(used->max_output_tokens());
    const std::string text = std::accumulate(words.begin(), words.end(), std::string());
    size_t end = std::string::npos;
    for (const auto& stop : asked.stop()) {
      if (stop.empty()) return Invalid("empty_stop", "a stop string is empty");
      end = std::min(end, text.find(stop));
    }
    const auto reason = cut ? pb::FINISH_REASON_MAX_TOKENS : pb::FINISH_REASON_END_OF_SEQUENCE;
    out->set_finish_reason(end == std::string::npos ? reason : pb::FINISH_REASON_STOP_STRING);
    out->add_parts()->set_text(text.substr(0, end));
    out->mutable_usage()->set_input_tokens(prompt.tokens), out->mutable_usage()->set_output_tokens(words.size());
    return Status::OK;
  }
  Status Likelihood(grpc::ServerContext*, const pb::LikelihoodRequest* in, pb::LikelihoodResponse* out) override {
    Prompt prompt;
    if (Status bad = Render(in->messages(), &prompt); !bad.ok()) return bad;
    if (in->continuations().empty()) return Invalid("no_continuations", "there is nothing to score");
    const auto best = Greedy(prompt.text);
    int scored = 0;
    for (const std::string& text : in->continuations()) {
      if (text.empty()) return Invalid("empty_continuation", "a continuation is empty");
      const auto words = Words(text);
      if (Status bad = Fit(prompt.tokens, words.size()); !bad.ok()) return bad;
      pb::ContinuationScore* score = out->add_scores();
      score->set_is_greedy(true), score->set_token_count(words.size());
      std::string said = prompt.text;
      for (size_t i = 0; i < words.size(); said += words[i++]) {
        score->set_is_greedy(score->is_greedy() && i < best.size() && words[i] == best[i]);
        const double logprob = std::log(score->is_greedy() ? 0.9 : 0.09 * Fraction(said + "|" + words[i]) + 1e-6);
        score->set_logprob(score->logprob() + logprob);
        if (!in->return_tokens()) continue;
        pb::TokenLogprob* token = score->add_tokens();
        token->set_token(words[i]), token->set_logprob(logprob);
      }
      scored += int(words.size());
    }
    out->mutable_usage()->set_input_tokens(prompt.tokens), out->mutable_usage()->set_output_tokens(scored);
    return Status::OK;
  }
};

int main(int count, char** words) {
  sigset_t signals;  // taken by sigwait below, in no other thread
  sigemptyset(&signals), sigaddset(&signals, SIGTERM), sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  Service service;
  int port = 0, signal = 0;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kLimit).RegisterService(&service).AddListeningPort(
      "127.0.0.1:" + std::string(count > 1 ? words[1] : "50051"), grpc::InsecureServerCredentials(), &port);
  const auto server = builder.BuildAndStart();
  if (!server) return 2;
  server->GetHealthCheckService()->SetServingStatus(pb::ModelService::service_full_name(), true);
  std::cout << "listening on 127.0.0.1:" << port << std::endl;
  sigwait(&signals, &signal);
  server->GetHealthCheckService()->SetServingStatus(false);
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(30));
}
