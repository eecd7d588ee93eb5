#include "checkpoint/plan/rank_tar.h"

#include "cairn/error.h"

#include "checkpoint/names/extension.h"
#include "checkpoint/plan/write_checkpoint.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "format/stream_plan.h"
#include "format/tar/writer.h"
#include "format/torch_plan.h"
#include "io/bytes/block_sink.h"

namespace cairn {
namespace {

constexpr int kNoteFormat = 1;

TorchPlan plan_of(const Value& value, const CheckpointInfo& info) {
  return TorchPlan(pickle::encode(value), with_manifest(info));
}

void write_text(tar::Writer& tar, const std::string& text) { tar.write(as_bytes(text)); }

// Counts the bytes that pass through.
class CountingSink final : public PositionalSink {
 public:
  explicit CountingSink(PositionalSink& to) : to_(to) {}
  void write(std::uint64_t offset, const SharedBytes& bytes) override {
    to_.write(offset, bytes);
    bytes_ += bytes.view.size();
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  PositionalSink& to_;
  std::uint64_t bytes_ = 0;
};

// Calls keep_alive() before each piece.
class LivingSink final : public ByteSink {
 public:
  LivingSink(ByteSink& to, const std::function<void()>& keep_alive)
      : to_(to), keep_alive_(keep_alive) {}
  void write(ByteView bytes) override {
    if (keep_alive_) keep_alive_();
    to_.write(bytes);
  }

 private:
  ByteSink& to_;
  const std::function<void()>& keep_alive_;
};

}  // namespace

std::string model_states_name() {
  return std::string(kDeepSpeedTag) + "/mp_rank_00_model_states.pt";
}

std::string optim_states_name(std::int64_t rank) {
  return std::string(kDeepSpeedTag) + "/zero_pp_rank_" + std::to_string(rank) +
         "_mp_rank_00_optim_states.pt";
}

std::string write_rank_note(const deepspeed::RankOfSave& rank) {
  return json_text(Json{{"format", kNoteFormat},
                        {"attempt", rank.attempt},
                        {"rank", rank.rank},
                        {"world_size", rank.world_size},
                        {"stage", rank.stage}},
                   -1);
}

deepspeed::RankOfSave parse_rank_note(std::string_view text) {
  try {
    const Json note = Json::parse(text);
    if (note.at("format").get<int>() != kNoteFormat) {
      throw UnsupportedError("this rank's tar has format " + note.at("format").dump() +
                             ", but this version of cairn reads format " +
                             std::to_string(kNoteFormat));
    }
    deepspeed::RankOfSave rank{.rank = note.at("rank").get<std::int64_t>(),
                               .world_size = note.at("world_size").get<std::int64_t>(),
                               .stage = note.at("stage").get<std::int64_t>(),
                               .attempt = note.at("attempt").get<std::string>()};
    const bool is_possible = rank.world_size >= 1 && rank.rank >= 0 &&
                             rank.rank < rank.world_size && rank.stage >= 0 && rank.stage <= 3;
    if (!is_possible) throw CorruptError("cairn_rank.json has impossible values");
    return rank;
  } catch (const Json::exception& e) {
    throw CorruptError("cairn_rank.json, which says whose tar this is, cannot be read: " +
                       std::string(e.what()));
  }
}

bool is_tar_name(const std::string& path) { return find_extension(path).is_tar; }

std::uint64_t write_rank_tar(const RankTarJob& job, PositionalSink& sink) {
  const Extension& extension = find_extension(job.path);
  if (!extension.is_tar)
    throw UsageError(job.path + " does not have the name of a tar; end it with .tar or .tar.gz");
  const deepspeed::RankFiles files = deepspeed::split(job.checkpoint, job.names, job.rank);
  CheckpointInfo info_of_part = job.info;
  info_of_part.kind = "value";
  const TorchPlan composer = plan_of(files.composer, job.info);
  const TorchPlan model = plan_of(files.model, info_of_part);
  const bool has_partition = job.rank.stage > 0;
  const TorchPlan optimizer = plan_of(files.optimizer, info_of_part);
  const std::string note = write_rank_note(job.rank);

  CountingSink counted(sink);
  BlockSink blocks(counted, block_bytes(composer.size() + model.size() + optimizer.size()));
  const auto compressed = extension.codec != nullptr ? extension.codec->encoder(blocks) : nullptr;
  LivingSink living(compressed != nullptr ? *compressed : static_cast<ByteSink&>(blocks),
                    job.keep_alive);
  tar::Writer tar(living, std::string(kRankNote), note.size());
  write_text(tar, note);
  tar.next(std::string(kTarMember), composer.size());
  stream_plan(composer, tar);
  tar.next("latest", kDeepSpeedTag.size());
  write_text(tar, std::string(kDeepSpeedTag));
  tar.next(model_states_name(), model.size());
  stream_plan(model, tar);
  if (has_partition) {
    tar.next(optim_states_name(job.rank.rank), optimizer.size());
    stream_plan(optimizer, tar);
  }
  tar.finish();
  if (compressed != nullptr) compressed->finish();
  blocks.finish();
  return counted.bytes();
}

}  // namespace cairn
