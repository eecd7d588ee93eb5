// Finds the checkpoint that autoresume would resume from, and why not from the others.
// search_run() decides, as it does for the Trainer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

#include "checkpoint/folder/folders_below.h"
#include "checkpoint/names/run_forms.h"
#include "checkpoint/search/search_run.h"
#include "core/text/json_fwd.h"

namespace cairn::cli {

// The options of the Trainer that decide.
struct ResumeArgs {
  std::string folder;
  std::string run_name = {};
  std::string filename = "ep{epoch}-ba{batch}-rank{rank}.pt";
  std::string latest_filename = "latest-rank{rank}.pt";
  std::string sharded_folders = kShardedFolders;
  // The form in which the Trainer would save now. If neither option is set, a checkpoint is one
  // file.
  std::string state_dict_type = "full";
  bool has_deepspeed_config = false;
  bool may_begin_anew = false;
  Verify verify = Verify::kFull;  // of checkpoints that may be the answer
};

struct ResumeExplanation {
  std::string folder;  // with the run's name filled in, without secrets
  RunAnswer answer;
  std::vector<std::pair<std::string, std::string>> others;  // path, and the reason against it
  bool is_there = false;                                    // the folder exists
  std::string format = {};                                  // of the names that were looked for
  std::size_t other_names = 0;  // files with a checkpoint's name that was not made from `format`
  FoldersBelow below = {};      // filled in when there is no answer
};

// Throws what search_run() throws.
ResumeExplanation explain_resume(const ResumeArgs& args);

// "epoch 2, batch 90".
std::string moment_of(const Timestamp& timestamp);
// The option that a Trainer needs to resume from the answer. Empty: none.
std::string needed_option(const RunAnswer& answer);
// A sentence for people if no checkpoint was found.
std::string no_answer(const ResumeExplanation& explanation);
// The answer of `cairn resume --json`.
Json resume_json(const ResumeExplanation& explanation);

}  // namespace cairn::cli
