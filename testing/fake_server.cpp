#include "testing/fake_server.h"

#include <algorithm>

namespace cairn::testing {

void FakeServer::start(Answer answer) {
  answer_ = std::move(answer);
  server_ =
      std::make_unique<HttpServer>([this](const ReceivedRequest& asked) { return handle(asked); });
}

std::vector<std::string> FakeServer::log() {
  const std::scoped_lock lock(mutex_);
  return log_;
}

void FakeServer::forget_log() {
  const std::scoped_lock lock(mutex_);
  log_.clear();
}

std::size_t FakeServer::count(const std::string& beginning) {
  const auto all = log();
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(),
                    [&](const std::string& line) { return line.starts_with(beginning); }));
}

std::string FakeServer::last_header(const std::string& name, const std::string& method) {
  const std::scoped_lock lock(mutex_);
  const auto& headers = last_headers_[method];
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::size_t FakeServer::faults() {
  const std::scoped_lock lock(mutex_);
  return faults_;
}

void FakeServer::answer_next(const std::string& beginning, const HttpReply& reply, int times,
                             When when) {
  const std::scoped_lock lock(mutex_);
  planned_.push_back({beginning, reply, times, when});
}

void FakeServer::forget_plans() {
  const std::scoped_lock lock(mutex_);
  planned_.clear();
}

void FakeServer::watch(Witness witness) {
  const std::scoped_lock lock(mutex_);
  witness_ = std::move(witness);
}

HttpReply FakeServer::handle(const ReceivedRequest& asked) {
  const std::scoped_lock lock(mutex_);
  log_.push_back(asked.method + " " + asked.target);
  last_headers_[""] = last_headers_[asked.method] = asked.headers;
  HttpReply reply = planned_or_answer(asked);
  if (witness_) witness_(asked, reply);
  return reply;
}

HttpReply FakeServer::planned_or_answer(const ReceivedRequest& asked) {
  for (Planned& planned : planned_) {
    if (planned.times == 0 || !log_.back().starts_with(planned.beginning)) continue;
    --planned.times;
    if (planned.when == When::kAfter) answer_(asked);
    return planned.reply;
  }
  if (std::uniform_real_distribution<double>(0, 1)(random_) >= fault_rate_) return answer_(asked);
  ++faults_;
  return with_fault(asked);
}

HttpReply FakeServer::with_fault(const ReceivedRequest& asked) {
  enum Kind : std::size_t { kError, kBusy, kReset, kLost, kHalf, kTruncated, kDrips, kTimeout };
  const auto kind = std::uniform_int_distribution<std::size_t>(kError, kTimeout)(random_);
  if (kind == kError) return passing_.at(0);
  if (kind == kBusy) return passing_.at(1);
  if (kind == kTimeout) return passing_.at(2);
  if (kind == kReset) return {.sends_at_most = 0};
  HttpReply reply = answer_(asked);
  if (kind == kLost) reply.sends_at_most = 0;
  if (kind == kHalf) reply.sends_at_most = 20;
  if (kind == kTruncated && !reply.body.empty()) {
    reply.headers.emplace_back("Content-Length", std::to_string(reply.body.size()));
    reply.body.resize(reply.body.size() / 2);
    reply.closes = true;
  }
  reply.drips = kind == kDrips && reply.body.size() < 4096;
  return reply;
}

std::string tag(const std::string& name, const std::string& text) {
  return "<" + name + ">" + text + "</" + name + ">";
}

HttpReply xml(const std::string& body) {
  return {.headers = {{"Content-Type", "application/xml"}},
          .body = "<?xml version=\"1.0\"?>\n" + body};
}

std::string between(const std::string& text, const std::string& before, const std::string& after,
                    std::size_t from) {
  const std::size_t begin = text.find(before, from);
  if (begin == std::string::npos) return "";
  const std::size_t end = text.find(after, begin + before.size());
  return text.substr(begin + before.size(),
                     end == std::string::npos ? end : end - begin - before.size());
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool cut_to_range(const std::string& range, HttpReply& reply) {
  if (!range.starts_with("bytes=")) return true;
  const std::size_t size = reply.body.size();
  const std::size_t minus = range.find('-');
  const std::string first = range.substr(6, minus - 6);
  const std::string last = range.substr(minus + 1);
  const std::size_t begin =
      first.empty() ? size - std::min<std::size_t>(size, std::stoull(last)) : std::stoull(first);
  const std::size_t end =
      first.empty() || last.empty() ? size : std::min<std::size_t>(size, std::stoull(last) + 1);
  if (begin >= end) return false;
  reply.status = 206;
  reply.body = reply.body.substr(begin, end - begin);
  reply.headers.emplace_back("Content-Range", "bytes " + std::to_string(begin) + "-" +
                                                  std::to_string(end - 1) + "/" +
                                                  std::to_string(size));
  return true;
}

}  // namespace cairn::testing
