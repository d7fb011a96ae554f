// A model server for Lyncean from the .proto alone. The "model" is at the top: it names a letter that depends on the
// prompt; put yours in its place. Build: cmake -S . -B build && cmake --build build; run: build/server 50051
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <cmath>
#include <csignal>
#include <iostream>
#include <random>

#include "lyncean/model/v1/model.grpc.pb.h"

namespace pb = lyncean::model::v1;
using grpc::ServerContext, grpc::Status, grpc::StatusCode, std::string;
constexpr int kLimit = 64 << 20, kContext = 16384;

// ---- the model: a byte is a token, and what it says depends on the prompt alone ----
double Fraction(const string& text) { return double(std::hash<string>{}(text) % 1000003) / 1000003; }
string Look(const string& image) { return "<" + std::to_string(Fraction(image)) + ">"; }
string Greedy(const string& prompt) { return string("The answer is ") + "ABCD"[int(4 * Fraction(prompt))] + "."; }
double Logprob(const string& said, bool greedy) { return std::log(greedy ? 0.97 : 1e-4 * Fraction(said) + 1e-9); }

// ---- the contract: a refusal is a status with google.rpc.ErrorInfo, in google.rpc.Status, written by hand ----
string Field(int number, const string& data) {
  string out(1, char(number * 8 + 2));
  size_t size = data.size();
  for (; size > 127; size >>= 7) out += char((size & 127) | 128);
  return out + char(size) + data;
}
void Demand(bool met, const string& reason, const string& message, StatusCode code = StatusCode::INVALID_ARGUMENT) {
  if (met) return;
  const string info = Field(1, reason) + Field(2, "lyncean");
  const string any = Field(1, "type.googleapis.com/google.rpc.ErrorInfo") + Field(2, info);
  throw Status(code, message, string{8, char(code)} + Field(2, message) + Field(3, any));
}

double Pixels(const string& file) {  // -1: it is no whole PNG or JPEG; a real model would decode it as well
  const size_t size = file.size();
  const auto big = [&](size_t at) { return uint8_t(file[at]) << 8 | uint8_t(file[at + 1]); };
  if (size > 32 && file.compare(0, 8, "\x89PNG\r\n\x1a\n", 8) == 0 && file.compare(size - 8, 4, "IEND") == 0)
    return (big(16) * 65536.0 + big(18)) * (big(20) * 65536.0 + big(22));
  if (size > 4 && big(0) == 0xffd8 && big(size - 2) == 0xffd9)
    for (size_t at = 2; at + 9 < size; at += 2 + big(at + 2))
      if (const int kind = big(at) - 0xffc0; kind >= 0 && kind < 16 && kind != 4 && kind != 8 && kind != 12)
        return double(big(at + 5)) * big(at + 7);
  return -1;
}
string Read(const pb::Part& part) {
  Demand(part.kind_case() != pb::Part::KIND_NOT_SET, "empty_part", "a part is neither text nor image");
  if (part.has_text()) return part.text();
  const double pixels = Pixels(part.image().data());
  Demand(pixels >= 0, "bad_image", "an image is no whole PNG or JPEG file");
  Demand(pixels <= 100e6, "image_too_large", "an image has more than 100000000 pixels");
  return Look(part.image().data());
}
template <typename Messages>
string Render(const Messages& messages) {
  string prompt;
  int role = 0;
  for (const pb::Message& message : messages) {
    Demand(message.role() != pb::ROLE_SYSTEM || role == 0, "system_role", "a system message comes first");
    role = message.role();
    Demand(role >= pb::ROLE_SYSTEM && role <= pb::ROLE_ASSISTANT, "no_role", "a message has no role");
    Demand(!message.parts().empty(), "no_parts", "a message has no parts");
    for (const pb::Part& part : message.parts()) prompt += Read(part) + "\n";
  }
  Demand(role == pb::ROLE_USER, "last_role", "the last message must be there, and the user's");
  return prompt;
}
void Fit(size_t tokens) {
  const string message = std::to_string(tokens) + " tokens, the context is " + std::to_string(kContext);
  Demand(tokens <= kContext, "context_exceeded", message, StatusCode::OUT_OF_RANGE);
}

const string kBoot = std::to_string(std::random_device()());
template <class Out> void Sign(Out* out) { out->set_model_revision("1"), out->set_boot_id(kBoot); }

class Service final : public pb::ModelService::Service {
  Status GetModelInfo(ServerContext*, const pb::GetModelInfoRequest*, pb::GetModelInfoResponse* out) override {
    Sign(out), out->set_model_name("cpp-example"), out->set_server_version("cpp-example 1.0.0");
    for (int each : {1, 2, 4, 7}) out->add_capabilities(pb::Capability(each));  // likelihood, images, several, generate
    out->set_max_concurrency(8), out->set_max_request_bytes(kLimit), out->set_max_context_tokens(kContext);
    return Status::OK;
  }
  Status Generate(ServerContext*, const pb::GenerateRequest* in, pb::GenerateResponse* out) override try {
    const pb::GenerationConfig& asked = in->config();
    const string prompt = Render(in->messages());
    Demand(!asked.has_max_output_tokens() || asked.max_output_tokens(), "zero_tokens", "max_output_tokens is 0");
    Demand(asked.temperature() >= 0, "temperature", "temperature is below 0");
    Demand(!asked.has_top_p() || (asked.top_p() > 0 && asked.top_p() <= 1), "top_p", "top_p is outside (0, 1]");
    const bool plain = asked.temperature() == 0 && !asked.top_logprobs() && in->modality() <= pb::MODALITY_TEXT;
    Demand(plain, "greedy_text_only", "this model says its most probable text only", StatusCode::UNIMPLEMENTED);
    pb::GenerationConfig* used = out->mutable_effective_config();
    *used = asked;
    used->set_temperature(0);
    if (!asked.has_max_output_tokens()) used->set_max_output_tokens(256);
    Fit(prompt.size() + used->max_output_tokens());
    const string whole = Greedy(prompt), text = whole.substr(0, used->max_output_tokens());
    size_t end = text.size();
    for (const string& stop : asked.stop()) {
      Demand(!stop.empty(), "empty_stop", "a stop string is empty");
      end = std::min(end, text.find(stop));
    }
    const auto reason = text == whole ? pb::FINISH_REASON_END_OF_SEQUENCE : pb::FINISH_REASON_MAX_TOKENS;
    out->set_finish_reason(end < text.size() ? pb::FINISH_REASON_STOP_STRING : reason);
    out->add_parts()->set_text(text.substr(0, end)), Sign(out->mutable_served_by());
    out->mutable_usage()->set_input_tokens(prompt.size()), out->mutable_usage()->set_output_tokens(text.size());
    return Status::OK;
  } catch (const Status& refusal) { return refusal; }
  Status Likelihood(ServerContext*, const pb::LikelihoodRequest* in, pb::LikelihoodResponse* out) override try {
    const string prompt = Render(in->messages()), best = Greedy(prompt);
    Demand(!in->continuations().empty(), "no_continuations", "there is nothing to score");
    out->mutable_usage()->set_input_tokens(prompt.size()), Sign(out->mutable_served_by());
    for (const string& text : in->continuations()) {
      Demand(!text.empty(), "empty_continuation", "a continuation is empty");
      Fit(prompt.size() + text.size());
      pb::ContinuationScore* score = out->add_scores();
      for (size_t size = 1; size <= text.size(); ++size) {
        score->set_is_greedy(text.substr(0, size) == best.substr(0, size));
        pb::TokenLogprob* token = score->add_tokens();
        token->set_token(text.substr(size - 1, 1));
        token->set_logprob(Logprob(prompt + text.substr(0, size), score->is_greedy()));
        score->set_logprob(score->logprob() + token->logprob());
      }
      score->set_token_count(text.size());
      if (!in->return_tokens()) score->clear_tokens();
      out->mutable_usage()->set_output_tokens(out->usage().output_tokens() + text.size());
    }
    return Status::OK;
  } catch (const Status& refusal) { return refusal; }
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
      "127.0.0.1:" + string(count > 1 ? words[1] : "50051"), grpc::InsecureServerCredentials(), &port);
  const auto server = builder.BuildAndStart();
  if (!server) return 2;
  server->GetHealthCheckService()->SetServingStatus(pb::ModelService::service_full_name(), true);
  std::cout << "listening on 127.0.0.1:" << port << std::endl;
  sigwait(&signals, &signal);
  server->GetHealthCheckService()->SetServingStatus(false);
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(30));
}
