// One rank's part of a checkpoint as a tar: docs/formats/deepspeed.md#one-tar-for-each-rank.
//
//   cairn_rank.json                                     first, so that few bytes say what it is
//   composer_states.pt                                  as in Composer's tars
//   latest                                              "deepspeed"
//   deepspeed/mp_rank_00_model_states.pt
//   deepspeed/zero_pp_rank_R_mp_rank_00_optim_states.pt   not for stage 0
//
// The tars of all ranks, unpacked into one folder, are a DeepSpeed checkpoint.
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

// The names of a rank's files in its tar.
std::string model_states_name();
std::string optim_states_name(std::int64_t rank);

// Write and parse the text of kRankNote. parse_rank_note() throws CorruptError, or UnsupportedError
// for another format.
std::string write_rank_note(const deepspeed::RankOfSave& rank);
deepspeed::RankOfSave parse_rank_note(std::string_view text);

struct RankTarJob {
  // its extension chooses the compression; UsageError unless the extension is a tar's
  std::string path = {};
  Value checkpoint = {};  // as for deepspeed::split()
  const deepspeed::ModelNames& names;
  deepspeed::RankOfSave rank = {};
  CheckpointInfo info = {};
  // Called before each piece (about 256 KiB, uncompressed) of the tar's content. Earlier pieces may
  // have been written by then, or still wait in a block.
  std::function<void()> keep_alive = nullptr;
};

// Whether a file of that name is a tar, compressed or not. Throws UsageError as find_extension()
// does.
bool is_tar_name(const std::string& path);

// Writes the blocks of the file and returns the number of bytes. Throws what split() and writing a
// torch.save file throw.
std::uint64_t write_rank_tar(const RankTarJob& job, PositionalSink& sink);

}  // namespace cairn
