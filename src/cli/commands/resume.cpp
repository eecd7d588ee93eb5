// cairn resume: shows which checkpoint autoresume would resume from, and why not from the others.
#include <memory>
#include <string>

#include "cairn/exit_code.h"

#include "checkpoint/open/source.h"
#include "cli/runs/resume_choice.h"
#include "cli/shell/command.h"
#include "cli/shell/folders.h"
#include "cli/view/table.h"
#include "core/text/json.h"
#include "core/text/printable.h"

namespace cairn::cli {
namespace {

void print_no_answer(const ResumeExplanation& explanation, Console& console) {
  console.err << "cairn: " << printable(no_answer(explanation)) << "\n";
  if (explanation.below.found.empty()) return;
  console.err << "cairn: not looked at: the checkpoints in " << list_below(explanation.below)
              << "; name the save_folder itself\n";
}

void print(const ResumeExplanation& explanation, Console& console) {
  const RunAnswer& answer = explanation.answer;
  if (answer.found) {
    console.out << printable_line(answer.found->path) << "\n";
  }
  if (answer.found && !console.quiet) {
    console.out << moment_of(answer.found->timestamp) << "; " << answer.found->report.summary()
                << "\n";
  }
  if (answer.is_rank_tar) {
    console.out
        << "one rank's part: a Trainer with " << needed_option(answer)
        << " resumes from it if every rank has its tar of that save; any other Trainer refuses to "
           "start\n";
  }
  if (!explanation.others.empty() && !console.quiet) {
    Table table({"NOT CHOSEN", "WHY"});
    for (const auto& [path, why] : explanation.others) {
      table.add({path, without_path(why, path)});
    }
    table.print(console);
  }
  if (!answer.found) print_no_answer(explanation, console);
}

int run_resume(const ResumeArgs& options, Console& console) {
  const ResumeExplanation explanation = explain_resume(options);
  if (console.json) {
    console.print_json(resume_json(explanation));
  } else {
    print(explanation, console);
  }
  return explanation.answer.found ? kDone : kNotFound;
}

}  // namespace

Run define_resume(CLI::App& app) {
  const auto options = std::make_shared<ResumeArgs>();
  app.add_option("FOLDER", options->folder,
                 "the run's save_folder; if no folder has that name, {run_name} in it is "
                 "filled in")
      ->required();
  app.add_flag("--explain")->description("no effect: the answer is always explained");
  app.add_option("--save-filename", options->filename,
                 "the Trainer's save_filename, if not ep{epoch}-ba{batch}-rank{rank}.pt")
      ->type_name("FORMAT");
  app.add_option("--save-latest-filename", options->latest_filename,
                 "the Trainer's save_latest_filename, if not latest-rank{rank}.pt")
      ->type_name("FORMAT");
  app.add_option("--run-name", options->run_name,
                 "the Trainer's run_name; others' checkpoints are not chosen")
      ->type_name("NAME");
  app.add_option("--sharded-ckpt-prefix-dir", options->sharded_folders,
                 "what sharded checkpoints are called, if not ep{epoch}-ba{batch}")
      ->type_name("FORMAT");
  auto* const sharded =
      app.add_option("--state-dict-type", options->state_dict_type,
                     "the Trainer's state_dict_type: whose names are in the way of a new run")
          ->type_name("full|sharded")
          ->check(CLI::IsMember({"full", "sharded"}));
  app.add_flag("--deepspeed-config", options->has_deepspeed_config,
               "the same of a Trainer with deepspeed_config, which saves a tar of each rank")
      ->excludes(sharded);
  app.add_flag("--autoresume-may-begin-anew", options->may_begin_anew,
               "as a Trainer with that option");
  app.footer(
      "The first line of the answer is the path that a Trainer with autoresume would load. In a "
      "folder it is the checkpoint that is furthest in training among those that verify in full, "
      "in any form that the run saved. In a store that is far away, the target of latest comes "
      "first: if it verifies, it is the answer, even if another file is further. Exit code 3 when "
      "there is none; the message says whether the Trainer would start afresh or refuse to start.");
  return [options](Console& console) { return run_resume(*options, console); };
}

}  // namespace cairn::cli
