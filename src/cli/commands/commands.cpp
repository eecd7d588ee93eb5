#include <array>

#include "cli/shell/command.h"

namespace cairn::cli {

std::span<const Command> commands() {
  static constexpr std::array kCommands = {
      Command{"completion", "print a script that completes the command line", define_completion},
      Command{"convert", "turn one kind of checkpoint into another", define_convert},
      Command{"copy", "put a checkpoint somewhere else, as it is", define_copy},
      Command{"curves", "plot what runs have logged", define_curves},
      Command{"diff", "compare two checkpoints, of whatever formats", define_diff},
      Command{"doctor", "say what this machine and this build can do", define_doctor},
      Command{"dump", "print the whole object as JSON", define_dump},
      Command{"extract", "take parts out of a checkpoint", define_extract},
      Command{"inspect", "show what a checkpoint is and what it holds", define_inspect},
      Command{"lock", "show which process trains into a folder", define_lock},
      Command{"ls", "list the checkpoints of a folder", define_ls},
      Command{"man", "print a man page", define_man},
      Command{"metrics", "print how runs stand, for Prometheus", define_metrics},
      Command{"prune", "remove the checkpoints that no rule keeps", define_prune},
      Command{"report", "write a page that shows runs: curves, checkpoints, times", define_report},
      Command{"resume", "show what autoresume would resume from", define_resume},
      Command{"serve", "serve a page that shows runs while they train", define_serve},
      Command{"verify", "check whether checkpoints are whole", define_verify},
      Command{"watch", "show runs while they train, and end with them", define_watch},
  };
  return kCommands;
}

}  // namespace cairn::cli
