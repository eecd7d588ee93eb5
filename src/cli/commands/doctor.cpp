// cairn doctor [FOLDER]: shows what this machine, this build and the folder's file system can do.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "checkpoint/open/source.h"
#include "cli/shell/command.h"
#include "cli/view/clock_text.h"
#include "cli/view/joined.h"
#include "cli/view/table.h"
#include "core/blas.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "io/files/probe_folder.h"
#include "io/machine.h"
#include "io/memory/scratch_file.h"
#include "io/process/program.h"
#include "io/uri.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

struct FolderState {
  std::string path;
  FolderSpace space;
  std::vector<FolderProbe> probes;
};

// The BLAS that libtorch would find, if it takes one from the system.
std::optional<Blas> system_blas() {
  std::optional<Blas> preloaded = loaded_blas();
  return preloaded ? preloaded : blas_of("libblas.so.3");
}

struct Diagnosis {
  KnownFormats known = known_formats();
  std::optional<std::string> lzop = find_program("lzop");
  MachineLimits limits = machine_limits();
  std::optional<Blas> blas = system_blas();
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
  std::string scratch_problem;  // empty: scratch files work
  std::optional<FolderState> folder;

  // An earlier time is before cairn existed, so the machine's clock is wrong. Rules about days
  // would fail then.
  bool is_clock_sane() const {
    return now > std::chrono::sys_days(std::chrono::January / 1 / 2026);
  }
  bool has_all() const {
    const bool folder_works =
        !folder || std::all_of(folder->probes.begin(), folder->probes.end(),
                               [](const FolderProbe& p) { return p.works || !p.is_needed; });
    return is_clock_sane() && scratch_problem.empty() && folder_works;
  }
};

Diagnosis diagnose(const std::string& folder) {
  Diagnosis diagnosis;
  try {
    ScratchFile scratch;
    scratch.write(as_bytes("cairn"));
    scratch.map();
  } catch (const Error& e) {
    diagnosis.scratch_problem = e.what();
  }
  if (!folder.empty()) {
    const std::string problem = place_problem(folder);
    if (!problem.empty()) throw UnsupportedError(problem);
    if (!scheme_of(folder).empty()) {
      throw UnsupportedError(shown_place(folder) +
                             " is no folder of this machine, whose file systems are tested here; "
                             "give a path");
    }
    if (!posix_file_system().stat(folder)) throw NotFoundError("there is no folder " + folder);
    diagnosis.folder = {folder, folder_space(folder), probe_folder(folder)};
  }
  return diagnosis;
}

Cell state_cell(bool works, bool is_needed) {
  if (works) return {"ok", &Console::green};
  return is_needed ? Cell("MISSING", &Console::red) : Cell("no");
}

std::string limit_text(const std::optional<std::uint64_t>& limit, const Console& console) {
  return limit ? console.bytes(*limit) : "no limit";
}

std::string blas_text(const std::optional<Blas>& blas) {
  if (!blas) return "no libblas.so.3 here: libtorch has its own";
  if (blas->is_slow) {
    return fmt::format("{}, 2 to 20 times slower than OpenBLAS: install {}", blas->name,
                       kFastBlasPackage);
  }
  const std::string pool =
      blas->has_own_pool ? fmt::format("; {} shares libtorch's threads", kFastBlasPackage) : "";
  return fmt::format("{}, {} thread{}{}", blas->name, blas->threads, blas->threads == 1 ? "" : "s",
                     pool);
}

// Shows the variables that libtorch reads when it is loaded.
std::string threads_text() {
  std::string text;
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  }
  return text.empty() ? "one for each core (OMP_NUM_THREADS is not set)" : text;
}

Cell blas_cell(const std::optional<Blas>& blas) {
  return blas && blas->is_slow ? Cell("SLOW", &Console::red) : state_cell(true, true);
}

void print_build(const Diagnosis& found, Console& console) {
  Table table({"WHAT", "STATE", "DETAIL"});
  const MachineLimits& limits = found.limits;
  table.add({"formats", state_cell(true, true), joined(found.known.formats)});
  table.add({"containers", state_cell(true, true), joined(found.known.containers)});
  table.add({"lzop", state_cell(found.lzop.has_value(), false),
             found.lzop.value_or("not in the PATH: no .pt.lzo")});
  table.add({"processors", state_cell(true, true), fmt::format("{:.3g}", limits.cpus)});
  table.add({"threads", state_cell(true, true), threads_text()});
  table.add({"BLAS", blas_cell(found.blas), blas_text(found.blas)});
  table.add({"memory", state_cell(true, true), limit_text(limits.memory_bytes, console)});
  table.add({"open files", state_cell(true, true),
             limits.open_files ? std::to_string(*limits.open_files) : "no limit"});
  table.add({"file size", state_cell(true, true), limit_text(limits.file_bytes, console)});
  table.add({"clock", state_cell(found.is_clock_sane(), true), utc_time_text(found.now)});
  table.add({"scratch files", state_cell(found.scratch_problem.empty(), true),
             found.scratch_problem.empty() ? "in $TMPDIR, or /var/tmp" : found.scratch_problem});
  table.print_report(console);
}

void print_folder(const FolderState& folder, Console& console) {
  if (!console.quiet) {
    console.out << "\n"
                << printable_line(folder.path) << ": " << folder.space.file_system << ", "
                << console.bytes(folder.space.free_bytes) << " of "
                << console.bytes(folder.space.total_bytes) << " free\n";
  }
  Table table({"WHAT", "STATE", "FOR", "DETAIL"});
  for (const FolderProbe& probe : folder.probes) {
    table.add({probe.name, state_cell(probe.works, probe.is_needed), probe.meaning, probe.detail});
  }
  table.print_report(console);
}

Json describe(const std::optional<Blas>& blas) {
  if (!blas) return {};
  return {{"name", blas->name},
          {"path", blas->path},
          {"threads", blas->threads},
          {"slow", blas->is_slow},
          {"own_threads", blas->has_own_pool}};
}

Json optional_number(const std::optional<std::uint64_t>& number) {
  return number ? Json(*number) : Json();
}

Json describe(const FolderState& folder) {
  Json probes = Json::array();
  for (const FolderProbe& probe : folder.probes) {
    probes.push_back({{"name", probe.name},
                      {"works", probe.works},
                      {"needed", probe.is_needed},
                      {"detail", probe.detail}});
  }
  return {{"path", folder.path},
          {"file_system", folder.space.file_system},
          {"free_bytes", folder.space.free_bytes},
          {"total_bytes", folder.space.total_bytes},
          {"probes", std::move(probes)}};
}

void print_json(const Diagnosis& found, Console& console) {
  const std::string& problem = found.scratch_problem;
  console.print_json({{"version", CAIRN_VERSION},
                      {"formats", found.known.formats},
                      {"containers", found.known.containers},
                      {"lzop", found.lzop ? Json(*found.lzop) : Json()},
                      {"processors", found.limits.cpus},
                      {"threads", threads_text()},
                      {"blas", describe(found.blas)},
                      {"memory_limit", optional_number(found.limits.memory_bytes)},
                      {"open_files_limit", optional_number(found.limits.open_files)},
                      {"file_size_limit", optional_number(found.limits.file_bytes)},
                      {"clock", utc_time_text(found.now)},
                      {"clock_ok", found.is_clock_sane()},
                      {"scratch_problem", problem.empty() ? Json() : Json(problem)},
                      {"folder", found.folder ? describe(*found.folder) : Json()},
                      {"ok", found.has_all()}});
}

int run_doctor(const std::string& folder, Console& console) {
  const Diagnosis found = diagnose(folder);
  if (console.json) {
    print_json(found, console);
  } else {
    if (!console.quiet) console.out << "cairn " << CAIRN_VERSION << "\n";
    print_build(found, console);
    if (found.folder) print_folder(*found.folder, console);
  }
  return found.has_all() ? kDone : kNegativeAnswer;
}

}  // namespace

Run define_doctor(CLI::App& app) {
  const auto folder = std::make_shared<std::string>();
  app.add_option("FOLDER", *folder, "test its file system, too, with small files that are removed");
  app.footer("Exit code 1 when something is missing that cairn needs.");
  return [folder](Console& console) { return run_doctor(*folder, console); };
}

}  // namespace cairn::cli
