#include "cairn/loggers/wandb_logger.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/state.h"

#include "core/environment.h"
#include "core/text/random_name.h"
#include "io/file.h"
#include "io/machine.h"
#include "loggers/logged_number.h"
#include "loggers/system_seconds.h"
#include "loggers/wandb/run_file.h"
#include "loggers/wandb/run_stream.h"
#include "storage/trackers/wandb/run_sender.h"

namespace cairn {
namespace {

// More than the batches by which a loss may be late (PendingLosses::kMaxPending).
constexpr std::size_t kRowsKept = 20;

// Between two summaries while the run is trained.
constexpr double kSummarySeconds = 10;

constexpr std::size_t kIdLength = 8;  // as W&B's tools draw it

// The metrics of one step, and when the first of them was logged.
struct Row {
  Dict metrics;
  double time = 0;
};

using Rows = std::map<std::int64_t, Row>;  // by step

// Where rank 0's run of a checkpoint stood.
struct SavedRun {
  std::string run_name;
  std::string id;
  std::string folder;  // of its file; "" for a run on the server
  wandb::RecordPosition position;
  double runtime = 0;
  std::int64_t step = 0;
  std::int64_t rows_written = 0;
  Rows rows;  // not yet written
  Dict summary;
};

// Neither may lead to another folder: both are in names of files.
bool is_id(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  });
}

std::optional<std::int64_t> count_in(const Value& state, const char* key) {
  const Value* value = state.find(key);
  if (value == nullptr || !value->is_int() || value->as_int() < 0) return std::nullopt;
  return value->as_int();
}

List rows_value(const Rows& rows) {
  List list;
  for (const auto& [step, row] : rows)
    list.push_back(Dict{{"step", step}, {"time", row.time}, {"metrics", row.metrics}});
  return list;
}

// nullopt if these are no rows.
std::optional<Rows> rows_in(const Value& state) {
  const Value* list = state.find("rows");
  if (list == nullptr || !list->is_list()) return std::nullopt;
  Rows rows;
  for (const Value& each : list->as_items()) {
    const auto step = count_in(each, "step");
    const Value* time = each.find("time");
    const Value* metrics = each.find("metrics");
    if (!step || time == nullptr || time->kind() != Kind::kFloat || metrics == nullptr ||
        !metrics->is_dict()) {
      return std::nullopt;
    }
    rows[*step] = {.metrics = metrics->as_dict(), .time = time->as_float()};
  }
  return rows;
}

// Adds the values whose keys `to` lacks.
void add_missing(Dict& to, const Dict& from) {
  for (const auto& [key, value] : from) {
    if (to.find(key) == nullptr) to.set(key, value);
  }
}

}  // namespace

struct WandBLogger::Impl {
  WandBLoggerOptions options;
  const State* state = nullptr;  // nullptr: nothing is logged
  wandb::RunDescription run = {};
  std::optional<SavedRun> saved = {};
  std::function<void(const std::string& entry)> send = {};  // online
  std::unique_ptr<wandb::RunWriter> writer = {};
  wandb::RunFile* file = nullptr;      // the writer, if it is one
  wandb::RunStream* stream = nullptr;  // the writer, if it is one
  Rows rows = {};                      // not yet written
  std::int64_t rows_written = 0;
  Dict config = {};            // not yet written
  Dict summary = {};           // the last value of each metric
  double began = 0;            // minus the time for which the run was trained before
  double summary_written = 0;  // when
  bool is_training = false;

  double now() const { return options.now ? options.now() : system_seconds(); }
  double runtime() const { return now() - began; }

  std::string folder() const {
    return join_path(first_given({options.dir, environment("WANDB_DIR"), "."}), "wandb");
  }
  // The folder of entries that wait for the server. The next start of the run finds them.
  std::string unsent_folder() const {
    std::string name = state->run_name + "-rank" + std::to_string(dist::rank());
    std::ranges::replace(name, '/', '_');
    return join_path(join_path(folder(), "unsent"), name);
  }
  // The run goes on where it stood at the checkpoint.
  void go_on() {
    began = now() - saved->runtime;
    rows_written = saved->rows_written;
    for (const auto& [step, row] : saved->rows) {
      const auto [at, is_new] = rows.try_emplace(step, row);
      if (!is_new) add_missing(at->second.metrics, row.metrics);
    }
    add_missing(summary, saved->summary);
  }
  // `logger` is null, except when training begins.
  void begin(Logger* logger = nullptr) {
    if (writer) return;
    // A program that only evaluates a checkpoint has a run of its own.
    if (logger == nullptr && std::exchange(run.is_resumed, false)) run.id = "";
    if (run.id.empty()) run.id = random_name(kIdLength);
    if (run.is_resumed) go_on();
    summary_written = now();
    if (send) {
      auto made = std::make_unique<wandb::RunStream>(run, std::exchange(config, Dict()),
                                                     unsent_folder(), send);
      stream = made.get();
      writer = std::move(made);
      if (run.is_resumed && !saved->folder.empty()) {
        logger->log_message("warning: WandBLogger: the run " + run.id +
                            " was offline until now; `wandb sync " +
                            join_path(folder(), saved->folder) + "` sends its earlier rows");
      }
      return;
    }
    auto made = run.is_resumed ? continued_file(*logger) : nullptr;
    if (!made) made = std::make_unique<wandb::RunFile>(folder(), run, now());
    file = made.get();
    writer = std::move(made);
    write_config();
  }
  std::unique_ptr<wandb::RunFile> continued_file(Logger& logger) {
    if (saved->folder.empty()) return nullptr;
    const std::string path = wandb::path_of_run(folder(), saved->folder, run.id);
    if (!posix_file_system().stat(path, /*follow=*/false)) return nullptr;
    try {
      return std::make_unique<wandb::RunFile>(path, saved->position);
    } catch (const CorruptError& e) {
      logger.log_message(std::string("warning: ") + e.what() +
                         "; W&B's run goes on in a second file");
      return nullptr;
    }
  }
  void write_config() {
    if (!config.empty()) writer->write_config(std::exchange(config, Dict()));
  }
  void write_first_row() {
    const auto& [step, row] = *rows.begin();
    writer->write_row({.number = rows_written++,
                       .step = step,
                       .metrics = row.metrics,
                       .runtime = row.time - began,
                       .time = row.time});
    rows.erase(rows.begin());
  }
  void write_summary() {
    writer->write_summary(summary);
    summary_written = now();
  }
  // Writes the rows of earlier steps.
  void write_before(std::int64_t step) {
    if (!writer) return;
    write_config();
    if (rows.empty() || rows.begin()->first >= step) return;
    while (!rows.empty() && rows.begin()->first < step)
      write_first_row();
    write_summary();
  }
  void write_all() { write_before(std::numeric_limits<std::int64_t>::max()); }
  // For a start that finds nothing to do: what an earlier one left.
  void send_unsent(Logger& logger) const {
    if (!posix_file_system().stat(unsent_folder())) return;
    Spool spool({.folder = unsent_folder(), .send = send});
    finish(spool, options.upload_timeout, "WandBLogger", logger);
  }
};

WandBLogger::WandBLogger(WandBLoggerOptions options) : impl_(std::make_unique<Impl>()) {
  options.mode = first_given({options.mode, environment("WANDB_MODE"), "online"});
  if (options.mode != "online" && options.mode != "offline" && options.mode != "disabled") {
    throw UsageError("WandBLogger: mode is \"online\", \"offline\" or \"disabled\", not \"" +
                     options.mode + "\" (if it was not given, it is from WANDB_MODE)");
  }
  const std::string id = first_given({options.id, environment("WANDB_RUN_ID")});
  if (!id.empty() && !is_id(id)) {
    throw UsageError("WandBLogger: an id has letters, digits, - and _, not \"" + id +
                     "\" (if it was not given, it is from WANDB_RUN_ID)");
  }
  impl_->options = std::move(options);
}
WandBLogger::~WandBLogger() = default;
WandBLogger::WandBLogger(WandBLogger&&) noexcept = default;
WandBLogger& WandBLogger::operator=(WandBLogger&&) noexcept = default;

std::string WandBLogger::run_id() const { return impl_->run.id; }

std::string WandBLogger::run_dir() const {
  return impl_->file != nullptr ? parent_path(impl_->file->path()) : "";
}

void WandBLogger::init(State& state, Logger& /*logger*/) {
  *impl_ = Impl{.options = std::move(impl_->options)};
  const WandBLoggerOptions& options = impl_->options;
  if (options.mode == "disabled" || (options.rank_zero_only && dist::rank() != 0)) return;
  impl_->state = &state;
  impl_->began = impl_->now();
  wandb::RunDescription& run = impl_->run;
  run.id = first_given({options.id, environment("WANDB_RUN_ID")});
  run.entity = first_given({options.entity, environment("WANDB_ENTITY")});
  run.project = first_given({options.project, environment("WANDB_PROJECT"), "uncategorized"});
  run.group = first_given({options.group, environment("WANDB_RUN_GROUP")});
  run.job_type = first_given({options.job_type, environment("WANDB_JOB_TYPE")});
  run.shown_name = first_given({options.name, environment("WANDB_NAME"), state.run_name});
  run.notes = first_given({options.notes, environment("WANDB_NOTES")});
  run.tags = options.tags;
  run.host = node_name();
  if ((run.entity + run.project).find('/') != std::string::npos) {
    throw UsageError("WandBLogger: the entity \"" + run.entity + "\" or the project \"" +
                     run.project + "\" has a slash, which W&B does not allow");
  }
  if (options.mode == "online") impl_->send = wandb::run_sender();
  if (options.rank_zero_only) return;
  if (run.group.empty()) run.group = run.shown_name;
  run.shown_name += "-rank" + std::to_string(dist::rank());
}

void WandBLogger::log_metrics(const Dict& metrics, std::int64_t step) {
  if (impl_->state == nullptr) return;
  const auto [row, is_new] = impl_->rows.try_emplace(step);
  if (is_new) row->second.time = impl_->now();
  for (const auto& [key, value] : metrics) {
    const std::optional<double> number = value.is_str() ? std::nullopt : logged_number(value);
    const Value logged = number && !value.is_int() ? Value(*number) : value;
    row->second.metrics.set(key, logged);
    impl_->summary.set(key, logged);
  }
  if (impl_->rows.size() <= kRowsKept) return;
  impl_->begin();
  while (impl_->rows.size() > kRowsKept)
    impl_->write_first_row();
  if (impl_->now() - impl_->summary_written >= kSummarySeconds) impl_->write_summary();
}

void WandBLogger::log_hyperparameters(const Dict& hyperparameters) {
  if (impl_->state == nullptr) return;
  for (const auto& [key, value] : hyperparameters)
    impl_->config.set(key, value);
  if (impl_->writer) impl_->write_config();
}

void WandBLogger::after_load(State& state, Logger& /*logger*/) {
  if (impl_->state == nullptr) return;
  const auto& saved = impl_->saved;
  wandb::RunDescription& run = impl_->run;
  const bool is_saved_run = saved && saved->run_name == state.run_name;
  if (run.id.empty()) run.id = is_saved_run ? saved->id : random_name(kIdLength);
  run.is_resumed = is_saved_run && run.id == saved->id;
  if (run.is_resumed) run.first_step = saved->step;
  if (impl_->options.rank_zero_only || dist::world_size() == 1) return;
  run.id = dist::broadcast_value(run.id).as_str();
  if (dist::rank() == 0) return;
  // The checkpoint has rank 0's run. The others begin new ones.
  run.id += "-rank" + std::to_string(dist::rank());
  if (std::exchange(run.is_resumed, false)) run.id += "-" + random_name(kIdLength);
}

// Not when the state is loaded: a program that only evaluates a checkpoint leaves the rows of the
// training after it as they are.
void WandBLogger::fit_start(State& /*state*/, Logger& logger) {
  if (impl_->state == nullptr) return;
  impl_->begin(&logger);
  impl_->write_config();
  impl_->is_training = true;
}

void WandBLogger::fit_end(State& /*state*/, Logger& /*logger*/) {
  impl_->write_all();
  impl_->is_training = false;
}

void WandBLogger::batch_end(State& /*state*/, Logger& logger) {
  if (impl_->stream != nullptr) log_warning(impl_->stream->spool(), "WandBLogger", logger);
}

void WandBLogger::close(State& /*state*/, Logger& logger) {
  if (impl_->state == nullptr) return;
  if (!impl_->rows.empty()) impl_->begin();
  if (!impl_->writer && impl_->send) impl_->send_unsent(logger);
  if (!impl_->writer) return;
  impl_->write_all();
  impl_->writer->write_exit(impl_->is_training ? 1 : 0, impl_->runtime());
  if (impl_->stream != nullptr) {
    finish(impl_->stream->spool(), impl_->options.upload_timeout, "WandBLogger", logger);
  }
  impl_->file = nullptr;
  impl_->stream = nullptr;
  impl_->writer.reset();
}

// The row of this step gets the loss of the next batch. In a job of several processes other losses
// may be missing, too. The rows that wait for them are in the checkpoint.
Value WandBLogger::state_dict() const {
  if (dist::world_size() == 1 && impl_->state != nullptr) {
    impl_->write_before(impl_->state->timestamp.batch);
  }
  if (!impl_->writer) return Dict{};
  Dict saved = {{"run_name", impl_->state->run_name},
                {"run_id", impl_->run.id},
                {"runtime", impl_->runtime()},
                {"step", impl_->state->timestamp.batch},
                {"rows_written", impl_->rows_written},
                {"rows", rows_value(impl_->rows)},
                {"summary", impl_->summary}};
  if (impl_->file != nullptr) {
    const wandb::RecordPosition position = impl_->file->position();
    saved.set("folder", base_name(run_dir()));
    saved.set("bytes", static_cast<std::int64_t>(position.bytes));
    saved.set("records", position.records);
  }
  return saved;
}

void WandBLogger::load_state_dict(const Value& state) {
  impl_->saved.reset();
  if (state.find("run_id") == nullptr) return;  // Composer's state is empty.
  const auto text = [&state](const char* key) {
    const Value* value = state.find(key);
    return value != nullptr && value->is_str() ? value->as_str() : std::string();
  };
  const auto step = count_in(state, "step");
  const auto rows_written = count_in(state, "rows_written");
  const auto rows = rows_in(state);
  const Value* runtime = state.find("runtime");
  const Value* summary = state.find("summary");
  const std::string folder = text("folder");
  const auto bytes = folder.empty() ? 0 : count_in(state, "bytes");
  const auto records = folder.empty() ? 0 : count_in(state, "records");
  if (!is_id(text("run_id")) || !(folder.empty() || is_id(folder)) || !bytes || !records || !step ||
      !rows_written || !rows || runtime == nullptr || runtime->kind() != Kind::kFloat ||
      summary == nullptr || !summary->is_dict()) {
    throw MismatchError(
        "WandBLogger's state has a \"run_id\" and a \"folder\" (letters, digits, - and _), the "
        "counts \"bytes\", \"records\", \"step\" and \"rows_written\", the number \"runtime\", the "
        "list \"rows\" and the dict \"summary\"");
  }
  impl_->saved = {.run_name = text("run_name"),
                  .id = text("run_id"),
                  .folder = folder,
                  .position = {.bytes = static_cast<std::uint64_t>(*bytes), .records = *records},
                  .runtime = runtime->as_float(),
                  .step = *step,
                  .rows_written = *rows_written,
                  .rows = *rows,
                  .summary = summary->as_dict()};
}

}  // namespace cairn
