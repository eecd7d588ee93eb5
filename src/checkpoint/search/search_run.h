// Finds the checkpoint that a run resumes from. A Trainer with autoresume and `cairn resume` call
// this one function, so that the two give the same answer.
//
//  1. In each place, the search looks for the checkpoint that is furthest in training, as
//     checkpoint/folder/find_latest.cpp says. The search takes the names of every form in which the
//     run may have saved (names/run_forms.h). Only checkpoints of the whole state count, and only
//     if the file has this run's name.
//  2. The furthest checkpoint of all places wins; among equal ones, the checkpoint of the first
//     place wins.
//  3. Only a run that saves a tar of each rank can take such a tar. If a tar is the furthest, other
//     runs get a refusal: they must neither begin anew nor go back.
//  4. If no checkpoint is found, the answer is a refusal if beginning anew would lose something:
//     (a) a checkpoint of another run has a name that this run would write;
//     (b) this machine has its part of a checkpoint, and other machines have the rest;
//     (c) a checkpoint of this run is proven whole but was not taken: its name has no known form,
//         or it could not be loaded.
//     may_begin_anew (TrainerOptions::autoresume_may_begin_anew) allows (b) and (c).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

// A place that may have checkpoints of a run.
struct SearchPlace {
  std::shared_ptr<ObjectStore> store;
  std::string folder;
  NameFormat filename;                           // of the names that the run saves now
  NameFormat latest_filename;                    // of the pointer; empty: no pointer
  std::string run_name;                          // empty: any run
  std::vector<NameFormat> other_filenames = {};  // of names that it may have saved before
  std::optional<Pointer> latest = std::nullopt;  // the pointer, if it was read already
  // each machine has its own part of the checkpoints: ranks/joint_store.h
  bool is_in_parts = false;

  // `filename` and other_filenames, without duplicates.
  std::vector<NameFormat> all_filenames() const;
};

// A checkpoint that must not be chosen, because a load of it failed.
struct PassedOver {
  std::shared_ptr<ObjectStore> store;
  std::string path;
  std::string why;  // one line
};

struct RunSearch {
  std::vector<SearchPlace> places;
  std::vector<PassedOver> except = {};
  bool takes_rank_tars = false;
  bool may_begin_anew = false;
  Verify verify = Verify::kQuick;
  // As in FindOptions.
  std::function<void(const std::string& path, const std::string& why)> on_skip = nullptr;
  std::function<void(const std::string& path, const Timestamp& timestamp)> on_older = nullptr;
  // Called for each checkpoint of another run, with its place, its path and the run's name.
  std::function<void(const SearchPlace& place, const std::string& path,
                     const std::string& run_name)>
      on_other_run = nullptr;
};

struct RunAnswer {
  std::optional<FoundCheckpoint> found = std::nullopt;
  std::size_t place = 0;  // the index in RunSearch::places of the place where `found` is
  // `found` is one rank's tar; the search does not know whether all ranks have theirs
  bool is_rank_tar = false;
  std::string refusal = {};  // if none is found: why the run must not begin anew; empty if it may
};

// Throws what find_latest() throws: a checkpoint that cannot be read now is no reason to begin
// anew.
RunAnswer search_run(const RunSearch& search);

}  // namespace cairn
