#include "cairn/loggers/summary_writer.h"

#include <chrono>

#include "cairn/error.h"

#include "io/file.h"
#include "loggers/images/pixels.h"
#include "loggers/system_seconds.h"
#include "loggers/tensorboard/event_file.h"
#include "loggers/tensorboard/summaries.h"

namespace cairn {
namespace {

constexpr std::size_t kImagesInARow = 8;  // PyTorch's
constexpr int kSessionStart = 1;          // SessionLog.START

EventPosition event_position(const Value& state, const std::string& suffix) {
  const Dict* dict = state.get_if<Dict>();
  const Value* file = dict == nullptr ? nullptr : dict->find("file");
  const Value* bytes = dict == nullptr ? nullptr : dict->find("bytes");
  if (file == nullptr || !file->is_str() || bytes == nullptr || !bytes->is_int() ||
      bytes->as_int() < 0) {
    throw MismatchError(
        "the state of a SummaryWriter has a text \"file\" and a number \"bytes\"; it is something "
        "else: was it saved by another class?");
  }
  EventPosition position = {.file = file->as_str(),
                            .bytes = static_cast<std::uint64_t>(bytes->as_int())};
  if (!is_event_file(position.file, suffix)) position.file.clear();  // another rank's
  return position;
}

}  // namespace

struct SummaryWriter::Impl {
  SummaryWriterOptions options;
  std::optional<EventFile> file;
  EventPosition last;      // where the previous file ended
  std::string first_file;  // the name of this writer's first file
  std::string last_path;

  EventFile& open() {
    const double now = options.now();
    if (!file) {
      file.emplace(options.log_dir, options.filename_suffix, now);
      last_path = file->path();
      if (first_file.empty()) first_file = base_name(last_path);
    }
    if (options.purge_step) {
      const ProtoMessage start = ProtoMessage().integer(1, kSessionStart);
      file->write(ProtoMessage().number(1, now).integer(2, *options.purge_step).message(7, start));
      options.purge_step.reset();
    }
    return *file;
  }
  void add(const ProtoMessage& summary_value, std::int64_t step) {
    open().write(ProtoMessage()
                     .number(1, options.now())
                     .integer(2, step)
                     .message(5, ProtoMessage().message(1, summary_value)));
  }
  void flush() {
    if (file) file->flush();
  }
  void close() {
    if (!file) return;
    file->flush();
    last = file->position();
    file.reset();
  }
};

SummaryWriter::SummaryWriter(SummaryWriterOptions options)
    : impl_(std::make_unique<Impl>(Impl{std::move(options), std::nullopt, {}, {}, {}})) {
  if (!impl_->options.now) impl_->options.now = system_seconds;
}
SummaryWriter::~SummaryWriter() {
  try {
    if (impl_ != nullptr) impl_->close();
  } catch (const std::exception&) {
    return;  // close() would have reported it
  }
}
SummaryWriter::SummaryWriter(SummaryWriter&&) noexcept = default;
SummaryWriter& SummaryWriter::operator=(SummaryWriter&&) noexcept = default;

void SummaryWriter::add_scalar(const std::string& tag, double value, std::int64_t step) {
  impl_->add(scalar_summary(tag, value), step);
}

void SummaryWriter::add_text(const std::string& tag, const std::string& text, std::int64_t step) {
  impl_->add(text_summary(tag, text), step);
}

void SummaryWriter::add_image(const std::string& tag, const at::Tensor& image, std::int64_t step,
                              bool channels_last) {
  add_images(tag, image, step, channels_last);
}

void SummaryWriter::add_images(const std::string& tag, const at::Tensor& images, std::int64_t step,
                               bool channels_last) {
  const PixelImage grid = grid_of(pixels_of(images, channels_last), kImagesInARow);
  impl_->add(image_summary(tag, grid), step);
}

void SummaryWriter::add_histogram(const std::string& tag, const at::Tensor& values,
                                  std::int64_t step) {
  const auto summary = histogram_summary(tag, values);
  if (summary) impl_->add(*summary, step);
}

void SummaryWriter::add_hparams(const Dict& hparams, const List& metric_tags) {
  impl_->add(experiment_summary(hparams, metric_tags), 0);
  impl_->add(session_summary(hparams, impl_->options.now()), 0);
}

void SummaryWriter::purge_from(std::int64_t step) { impl_->options.purge_step = step; }
void SummaryWriter::flush() { impl_->flush(); }
void SummaryWriter::close() { impl_->close(); }
std::string SummaryWriter::path() const { return impl_->last_path; }

Value SummaryWriter::state_dict() {
  impl_->flush();
  const EventPosition now = impl_->file ? impl_->file->position() : impl_->last;
  return Dict{{"file", now.file}, {"bytes", static_cast<std::int64_t>(now.bytes)}};
}

void SummaryWriter::load_state_dict(const Value& state) {
  const EventPosition position = event_position(state, impl_->options.filename_suffix);
  if (position.file.empty()) return;
  // If the position is in an older writer's file, this writer's own files are kept.
  const bool is_own = !impl_->first_file.empty() && position.file >= impl_->first_file;
  if (is_own) impl_->close();
  cut_event_files(impl_->options.log_dir, impl_->options.filename_suffix, position,
                  is_own ? std::string() : impl_->first_file);
  if (impl_->last_path.empty() || is_own) impl_->last = position;
}

}  // namespace cairn
