// One rank's part of a checkpoint as a tar: docs/formats/deepspeed.md#one-tar-for-each-rank.
//
//   cairn_rank.json                                     first, so that few bytes say what it is
//   composer_states.pt                                  what Composer's have
//   latest                                              "deepspeed"
//   deepspeed/mp_rank_00_model_states.pt
//   deepspeed/zero_pp_rank_R_mp_rank_00_optim_states.pt   but for stage 0
//
// All of them unpacked into one folder make a checkpoint of DeepSpeed's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cairn/checkpoint/checkpoint.h"

#include "format/deepspeed/rank_files.h"
#include "io/bytes/positional_sink.h"

namespace cairn {

inline constexpr std::string_view kRankNote = "cairn_rank.json";
inline constexpr std::string_view kDeepSpeedTag = "deepspeed";  // Composer's

// What the files of a rank are called in its tar.
std::string model_states_name();
std::string optim_states_name(std::int64_t rank);

// The text of kRankNote, and what it says. CorruptError.
std::string write_rank_note(const deepspeed::RankOfSave& rank);
deepspeed::RankOfSave parse_rank_note(std::string_view text);

struct RankTarJob {
  std::string path = {};  // its extension says what is around it: UsageError unless that is a tar's
  Value checkpoint = {};  // deepspeed::split()'s
  const deepspeed::ModelNames& names;
  deepspeed::RankOfSave rank = {};
  CheckpointInfo info = {};
  // Called between two pieces of what is in the tar, some 256 KiB each, however few bytes become of
  // them: the block before may have been written then.
  std::function<void()> move_on = nullptr;
};

// A file of that name is a tar, compressed or not. UsageError as find_extension().
bool is_tar_name(const std::string& path);

// Writes the blocks of the file, and returns how many bytes they are. Throws as split(), and what
// writing a torch.save file does.
std::uint64_t write_rank_tar(const RankTarJob& job, PositionalSink& sink);

}  // namespace cairn
