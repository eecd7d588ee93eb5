// What source.cpp's rows look at and open.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/open/source.h"
#include "io/bytes/windows.h"

namespace cairn {

struct Candidate {
  std::shared_ptr<ObjectStore> store = nullptr;
  std::string path;  // as the user gave it: for messages, and the key of a folder's files
  bool is_folder = false;
  // Of a file, without the containers taken off so far; its ends are read ahead.
  std::shared_ptr<Windows> source = nullptr;
  SharedBytes start = {};                    // its first KiB, by which it is recognised
  std::uint64_t stored_bytes = 0;            // of the file on disk
  std::vector<std::string> containers = {};  // taken off so far, outermost first
  std::string scratch_folder = {};
  std::function<void(std::uint64_t bytes)> on_progress = nullptr;  // see OpenOptions; may be null
  Access access = Access::kVerified;

  // What is looked at from now on. One read, for what recognising and opening it will ask for.
  void set_content(std::shared_ptr<const ByteSource> content);
};

struct FormatRow {
  const char* name;  // SourceInfo::format, or the container's name
  bool (*matches)(const Candidate&);
  // A format's row opens; a container's row gives what was inside, to be recognised in turn.
  std::unique_ptr<CheckpointSource> (*open)(Candidate);
  Candidate (*unwrap)(Candidate) = nullptr;
};

// The rows' functions, one file each; those of compressions are in compressed_source.h.
bool is_tar(const Candidate& candidate);
Candidate unwrap_tar(Candidate candidate);
bool is_rank_tar(const Candidate& candidate);
std::unique_ptr<CheckpointSource> open_rank_tar(Candidate candidate);
bool is_dcp(const Candidate& candidate);
std::unique_ptr<CheckpointSource> open_dcp(Candidate candidate);
bool is_dcp_safetensors(const Candidate& candidate);
std::unique_ptr<CheckpointSource> open_dcp_safetensors(Candidate candidate);
bool is_deepspeed(const Candidate& candidate);
std::unique_ptr<CheckpointSource> open_deepspeed(Candidate candidate);
bool is_torch_zip(const Candidate& candidate);
std::unique_ptr<CheckpointSource> open_torch_zip(Candidate candidate);
bool is_torch_legacy(const Candidate& candidate);
std::unique_ptr<CheckpointSource> open_torch_legacy(Candidate candidate);
bool is_pickle(const Candidate& candidate);
std::unique_ptr<CheckpointSource> open_pickle(Candidate candidate);
bool is_safetensors(const Candidate& candidate);
std::unique_ptr<CheckpointSource> open_safetensors(Candidate candidate);
bool is_shard_index(const Candidate& candidate);
std::unique_ptr<CheckpointSource> open_shard_index(Candidate candidate);
bool is_model_folder(const Candidate& candidate);
std::unique_ptr<CheckpointSource> open_model_folder(Candidate candidate);

}  // namespace cairn
