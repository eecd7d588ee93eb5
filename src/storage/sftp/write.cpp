// Writing a file:
//
//  1. A new file `.cairn-tmp-NAME-RANDOM` is made beside the target, as AtomicFile does on this
//     machine. No list shows the new file.
//  2. Bytes are sent in pieces, many under way at once. write() waits if there are too many.
//  3. commit() waits for all pieces, makes them durable (fsync@openssh.com) and compares the file's
//     size.
//  4. The file takes its name. posix-rename@openssh.com replaces an existing file. A new file gets
//     its name as a second name, which the server refuses if the name exists. If the answer is
//     lost, the temporary name shows the outcome.
//  5. If the connection breaks off before step 4, the write fails: it is not known what the server
//     has on its disk. Another write begins at step 1.
#include "storage/sftp/write.h"

#include <algorithm>
#include <deque>
#include <exception>

#include "cairn/error.h"

#include "core/existing.h"
#include "io/durable/atomic_file.h"
#include "io/file.h"
#include "storage/sftp/files.h"

namespace cairn::sftp {
namespace {

constexpr std::size_t kWritesUnderWay = std::size_t{4} << 20;  // bytes

// The temporary file beside the target, which finally takes the target's name.
class TemporaryFile {
 public:
  // `name` is the target's name in messages.
  TemporaryFile(std::string target, std::string name, bool is_new)
      : target_(std::move(target)), name_(std::move(name)), is_new_(is_new) {}

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }

  // Step 1. Returns the handle. May be repeated on another connection.
  std::string begin(Session& session) {
    check_target(session);
    make_folders(session, parent_path(target_));
    path_ = temporary_name(target_);
    return create(session, path_);
  }

  // Step 4, for a file with this size and time. May be repeated on another connection.
  void take_name(Session& session, std::uint64_t size, std::optional<std::uint32_t> modified) {
    if (was_published(session, size, modified)) return;
    if (!is_new_) {
      replace(session, path_, target_);
    } else if (!publish_new(session, path_, target_)) {
      refuse_existing();
    }
    was_renamed_ = true;
    const auto there = stat(session, target_);
    if (there) check_size(*there, size);
  }

  void check_size(const Attributes& attributes, std::uint64_t size) const {
    if (!attributes.size || *attributes.size == size) return;
    throw StorageError(
        name_ + ": the server does not have what was written: " + std::to_string(*attributes.size) +
            " bytes instead of " + std::to_string(size) + "; write it again",
        0, /*retryable=*/true);
  }

 private:
  void check_target(Session& session) const {
    const auto there = stat(session, target_);
    if (there && there->is_folder()) {
      throw UsageError("cannot write " + name_ + ": a folder has that name");
    }
    if (there && is_new_) refuse_existing();
  }

  [[noreturn]] void refuse_existing() const { cairn::refuse_existing(name_); }

  // Whether an attempt whose answer was lost has published the file.
  bool was_published(Session& session, std::uint64_t size, std::optional<std::uint32_t> modified) {
    const bool is_first = !std::exchange(was_tried_, true);
    if (is_first) return false;
    const auto there = stat(session, target_, /*follow=*/false);
    const bool is_ours = there && there->size == size && there->modified == modified;
    const auto left = stat(session, path_, /*follow=*/false);
    if (is_ours && left && is_new_) remove(session, path_);  // The file has both names.
    if (was_renamed_) return true;
    if (!left && !is_ours) {
      throw StorageError(
          "writing " + name_ + ": the temporary file is gone; write the object again", 0,
          /*retryable=*/true);
    }
    return !left || (is_ours && is_new_);
  }

  const std::string target_;
  const std::string name_;
  const bool is_new_;
  std::string path_;
  bool was_tried_ = false;
  bool was_renamed_ = false;
};

class FileWrite final : public ObjectWrite {
 public:
  FileWrite(std::shared_ptr<Connection> connection, std::string path, std::string name,
            const BeginOptions& options)
      : connection_(std::move(connection)),
        file_(std::move(path), std::move(name),
              options.condition.when == WriteCondition::If::kAbsent) {
    connection_->with([&](Session& session) {
      handle_ = {.session = 0, .text = file_.begin(session)};
      handle_.session = connection_->session();
    });
  }

  ~FileWrite() override {
    if (is_done_) return;
    try {
      Cleanup cleanup = {.handle = handle_, .temporary = file_.path()};
      if (!is_open_) cleanup.handle.text.clear();
      for (const Piece& piece : under_way_)
        cleanup.asked.push_back(piece.id);
      connection_->clean_up(std::move(cleanup));
    } catch (...) {
      // remove_leftovers() will find what this destructor does not remove.
    }
  }
  FileWrite(const FileWrite&) = delete;
  FileWrite& operator=(const FileWrite&) = delete;

  void write(ByteView bytes) override {
    if (bytes.empty()) return;
    const FailureGuard guard(*this);
    connection_->once(
        [&](Session& session) {
          while (!bytes.empty()) {
            const std::size_t count = std::min<std::size_t>(bytes.size(), session.most_write());
            const Request request = Request(Packet::kWrite)
                                        .text(handle_.text)
                                        .u64(size_)
                                        .text(as_text(bytes.first(count)));
            under_way_.push_back({session.send(request), count});
            waiting_ += count;
            size_ += count;
            bytes = bytes.subspan(count);
            while (waiting_ > kWritesUnderWay)
              finish_one(session);
          }
        },
        handle_.session);
  }

 private:
  struct Piece {
    Session::Id id;
    std::size_t bytes;
  };

  // Guards steps that must succeed. After a failure it is not known what the server has of the
  // file. So no more is written, and the file does not get its name.
  class FailureGuard {
   public:
    explicit FailureGuard(FileWrite& of) : of_(of), errors_(std::uncaught_exceptions()) {
      if (of_.has_failed_) {
        throw StorageError("writing " + of_.file_.name() + " failed before; start it again", 0,
                           /*retryable=*/true);
      }
    }
    ~FailureGuard() {
      if (std::uncaught_exceptions() > errors_) of_.has_failed_ = true;
    }
    FailureGuard(const FailureGuard&) = delete;
    FailureGuard& operator=(const FailureGuard&) = delete;

   private:
    FileWrite& of_;
    const int errors_;
  };

  void finish_one(Session& session) {
    const Piece piece = under_way_.front();
    check_done(session.wait(piece.id), "cannot write " + file_.name());
    under_way_.pop_front();
    waiting_ -= piece.bytes;
  }

  void publish() override {
    const FailureGuard guard(*this);
    std::optional<std::uint32_t> modified;
    connection_->once(
        [&](Session& session) {
          while (!under_way_.empty())
            finish_one(session);
          sync(session, handle_.text, file_.name());
          const Attributes written = stat_open(session, handle_.text, file_.name());
          file_.check_size(written, size_);
          modified = written.modified;
          close(session, handle_.text, file_.name());
          is_open_ = false;
        },
        handle_.session);
    connection_->with([&](Session& session) {
      handle_.session = connection_->session();  // the session for the cleanup if this fails
      file_.take_name(session, size_, modified);
    });
    is_done_ = true;
  }

  std::shared_ptr<Connection> connection_;
  TemporaryFile file_;
  Handle handle_;
  bool is_open_ = true;
  std::uint64_t size_ = 0;
  std::deque<Piece> under_way_;
  std::size_t waiting_ = 0;  // bytes in these pieces
  bool has_failed_ = false;
  bool is_done_ = false;
};

}  // namespace

std::unique_ptr<ObjectWrite> write_file(std::shared_ptr<Connection> connection,
                                        const std::string& path, const std::string& name,
                                        const BeginOptions& options) {
  return std::make_unique<FileWrite>(std::move(connection), path, name, options);
}

}  // namespace cairn::sftp
