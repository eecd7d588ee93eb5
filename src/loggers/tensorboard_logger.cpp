#include "cairn/loggers/tensorboard_logger.h"

#include <torch/torch.h>

#include <optional>
#include <utility>

#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/state.h"

#include "io/file.h"
#include "loggers/logged_number.h"

namespace cairn {
namespace {

void append_cell(std::string& text, const Value& value) {
  text += ' ';
  for (const char c : value.is_str() ? value.as_str() : format_log_value(value)) {
    if (c == '|') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  text += " |";
}

std::string markdown_table(const LoggedTable& table) {
  std::string text = "|";
  for (const std::string& column : table.columns)
    append_cell(text, column);
  text += "\n|";
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    text += "---|";
  for (const List& row : table.rows) {
    text += "\n|";
    for (const Value& value : row)
      append_cell(text, value);
  }
  return text;
}

// Composer's choice of metrics for the HPARAMS page.
bool is_for_hparams(const std::string& name) {
  return name.find("metric") != std::string::npos || name.find("loss") != std::string::npos;
}

struct ResumePoint {
  std::string run_name;
  std::int64_t batch = 0;
  Value writer;
};

}  // namespace

struct TensorboardLogger::Impl {
  TensorboardLoggerOptions options;
  const State* state = nullptr;
  std::optional<SummaryWriter> writer;
  Dict hyperparameters;
  Dict metrics;  // the last value of each
  std::optional<ResumePoint> resume;
  Value sent;  // the position up to which files were uploaded

  // Each uploaded file is complete: the next event opens another one.
  void flush(Logger& logger) {
    if (!writer) return;
    if (!logger.has_file_upload_destination()) return writer->flush();
    writer->close();
    const Value before = std::exchange(sent, writer->state_dict());
    if (sent == before || writer->path().empty()) return;
    const NameFormat path = NameFormat::of_name(writer->path());
    const NameFormat name = NameFormat::of_name(base_name(writer->path()));
    logger.upload_file({.remote_file_name = "tensorboard_logs/{run_name}/" + name.text(),
                        .file_path = path.text(),
                        .overwrite = true,
                        .is_immutable = true});
  }
};

TensorboardLogger::TensorboardLogger(TensorboardLoggerOptions options)
    : impl_(std::make_unique<Impl>()) {
  if (options.flush_interval < 1) {
    throw UsageError("TensorboardLogger: flush_interval is at least 1, not " +
                     std::to_string(options.flush_interval));
  }
  impl_->options = std::move(options);
}
TensorboardLogger::~TensorboardLogger() = default;
TensorboardLogger::TensorboardLogger(TensorboardLogger&&) noexcept = default;
TensorboardLogger& TensorboardLogger::operator=(TensorboardLogger&&) noexcept = default;

SummaryWriter* TensorboardLogger::writer() { return impl_->writer ? &*impl_->writer : nullptr; }

void TensorboardLogger::init(State& state, Logger& /*logger*/) {
  impl_->state = &state;
  if (impl_->options.rank_zero_only && dist::rank() != 0) return;
  impl_->writer.emplace(
      SummaryWriterOptions{.log_dir = join_path(impl_->options.log_dir, state.run_name),
                           .filename_suffix = ".rank" + std::to_string(dist::rank()),
                           .now = impl_->options.now});
}

void TensorboardLogger::log_metrics(const Dict& metrics, std::int64_t step) {
  if (!impl_->writer) return;
  for (const auto& [key, value] : metrics) {
    const std::optional<double> number = logged_number(value);
    if (!number) continue;
    impl_->metrics.set(key, *number);
    impl_->writer->add_scalar(key.as_str(), *number, step);
  }
}

void TensorboardLogger::log_hyperparameters(const Dict& hyperparameters) {
  for (const auto& [key, value] : hyperparameters)
    impl_->hyperparameters.set(key, value);
}

void TensorboardLogger::log_table(const LoggedTable& table, std::int64_t step) {
  if (impl_->writer) impl_->writer->add_text(table.name, markdown_table(table), step);
}

void TensorboardLogger::log_images(const LoggedImages& images, std::int64_t step) {
  if (!impl_->writer) return;
  impl_->writer->add_images(images.name, images.images, step, images.channels_last);
}

// Not when the state is loaded: a program that only evaluates a checkpoint leaves the log of the
// training after it as it is.
void TensorboardLogger::fit_start(State& state, Logger& /*logger*/) {
  const auto resume = std::exchange(impl_->resume, std::nullopt);
  if (!resume || !impl_->writer || resume->run_name != state.run_name) return;
  impl_->writer->load_state_dict(resume->writer);
  impl_->writer->purge_from(resume->batch + 1);
}

void TensorboardLogger::batch_end(State& state, Logger& logger) {
  if (state.timestamp.batch % impl_->options.flush_interval == 0) impl_->flush(logger);
}

void TensorboardLogger::epoch_end(State& /*state*/, Logger& logger) { impl_->flush(logger); }
void TensorboardLogger::fit_end(State& /*state*/, Logger& logger) { impl_->flush(logger); }
void TensorboardLogger::eval_start(State& /*state*/, Logger& logger) { impl_->flush(logger); }

void TensorboardLogger::eval_end(State& state, Logger& logger) {
  if (!impl_->writer) return;
  List tags;
  for (const auto& [key, value] : impl_->metrics) {
    if (!is_for_hparams(key.as_str())) continue;
    const std::string tag = "hparams/" + key.as_str();
    tags.emplace_back(tag);
    impl_->writer->add_scalar(tag, value.as_float(), state.timestamp.batch);
  }
  if (!impl_->hyperparameters.empty()) impl_->writer->add_hparams(impl_->hyperparameters, tags);
  impl_->flush(logger);
}

void TensorboardLogger::close(State& /*state*/, Logger& logger) {
  if (!impl_->writer) return;
  impl_->flush(logger);
  impl_->writer->close();
}

Value TensorboardLogger::state_dict() const {
  if (!impl_->writer || impl_->state == nullptr) return Dict{};
  return Dict{{"run_name", impl_->state->run_name},
              {"batch", impl_->state->timestamp.batch},
              {"writer", impl_->writer->state_dict()}};
}

void TensorboardLogger::load_state_dict(const Value& state) {
  const Value* run_name = state.find("run_name");
  if (run_name == nullptr) return;  // Composer's state is empty.
  const Value* batch = state.find("batch");
  const Value* writer = state.find("writer");
  if (!run_name->is_str() || batch == nullptr || !batch->is_int() || writer == nullptr) {
    throw MismatchError(
        "TensorboardLogger's state has a text \"run_name\", a number \"batch\" and a \"writer\"");
  }
  impl_->resume = {run_name->as_str(), batch->as_int(), *writer};
}

}  // namespace cairn
