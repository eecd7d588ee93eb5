// Reading a file:
//
//  1. The file is opened once and stays open, so a new file of the same name does not matter.
//  2. Ranges are requested in pieces, many at once. Each piece is written into its part of the
//     range.
//  3. If the connection breaks off, the file is opened again. If its size and time are unchanged,
//     only the missing bytes are requested.
#include "storage/sftp/source.h"

#include <algorithm>
#include <deque>

#include "storage/sftp/files.h"

namespace cairn::sftp {
namespace {

constexpr std::size_t kUnderWay = std::size_t{4} << 20;  // limit of requested bytes
constexpr std::size_t kDataHead = 64;                    // of an answer, besides its bytes

class FileSource final : public ByteSource {
 public:
  FileSource(std::shared_ptr<Connection> connection, std::string path, std::string name,
             Attributes attributes)
      : connection_(std::move(connection)),
        path_(std::move(path)),
        name_(std::move(name)),
        attributes_(attributes) {}
  ~FileSource() override { connection_->close_later(std::move(handle_)); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  std::uint64_t size() const override { return attributes_.size.value_or(0); }
  const std::string& name() const override { return name_; }

  void read(std::span<const Range> ranges) const override {
    std::deque<Range> missing;
    std::uint64_t left = 0;
    for (const Range& range : ranges) {
      check_range(range.offset, range.into.size());
      if (!range.into.empty()) missing.push_back(range);
      left += range.into.size();
    }
    if (missing.empty()) return;
    connection_->with([&](Session& session) { read_all_of(session, missing, left); },
                      [&left] { return left; });
  }

  void use(Session& session) const {
    if (handle_.session == connection_->session()) return;
    const auto text = open_to_read(session, path_);
    if (!text) refuse_other("was removed");
    const Handle opened{.session = connection_->session(), .text = *text};
    try {
      const Attributes now = stat_open(session, *text, path_);
      if (now.size != attributes_.size || now.modified != attributes_.modified) {
        refuse_other("was replaced");
      }
    } catch (...) {
      connection_->close_later(opened);
      throw;
    }
    handle_ = opened;
  }

 private:
  struct Piece {
    Session::Id id;
    Range range;
  };

  [[noreturn]] void refuse_other(const std::string& what) const {
    throw StorageError(name_ + " " + what + " while it was read; open it again", 0);
  }

  // Takes the received bytes out of `missing` and `left`, even if an exception ends the call.
  void read_all_of(Session& session, std::deque<Range>& missing, std::uint64_t& left) const {
    use(session);
    std::deque<Piece> under_way;
    std::size_t asked_for = 0;
    try {
      while (!missing.empty() || !under_way.empty()) {
        while (!missing.empty() && asked_for < kUnderWay) {
          under_way.push_back(ask(session, missing));
          asked_for += under_way.back().range.into.size();
        }
        const Range range = under_way.front().range;
        const std::size_t count = take(session.wait(under_way.front().id), range);
        under_way.pop_front();
        asked_for -= range.into.size();
        left -= count;
        if (count < range.into.size()) {
          missing.push_front({range.offset + count, range.into.subspan(count)});
        }
      }
    } catch (const ConnectionLost&) {
      for (const Piece& piece : under_way)
        missing.push_back(piece.range);
      throw;
    }
  }

  Piece ask(Session& session, std::deque<Range>& missing) const {
    Range& next = missing.front();
    const std::size_t count = std::min<std::size_t>(next.into.size(), session.most_read());
    const Range range = {next.offset, next.into.first(count)};
    const Session::Id id = session.send(Request(Packet::kRead)
                                            .text(handle_.text)
                                            .u64(range.offset)
                                            .u32(static_cast<std::uint32_t>(count)),
                                        std::max(count + kDataHead, Session::kShortAnswer));
    next = {next.offset + count, next.into.subspan(count)};
    if (next.into.empty()) missing.pop_front();
    return {id, range};
  }

  // Returns the number of bytes received, which may be fewer than requested.
  std::size_t take(Answer answer, const Range& range) const {
    if (answer.type() == Packet::kStatus) {
      const Status status = status_of(answer, name_);
      if (status == Status::kEof) refuse_other("became shorter");
      refuse(status, answer.at_end() ? "" : answer.text(), "cannot read " + name_);
    }
    if (answer.type() != Packet::kData) {
      throw ConnectionLost("reading " + name_ + ": the server's answer is no data");
    }
    const std::string_view bytes = answer.text();
    if (bytes.empty() || bytes.size() > range.into.size()) {
      throw ConnectionLost("reading " + name_ + ": the server sent " +
                           std::to_string(bytes.size()) + " bytes in place of " +
                           std::to_string(range.into.size()));
    }
    const ByteView data = as_bytes(bytes);
    std::copy(data.begin(), data.end(), range.into.begin());
    return bytes.size();
  }

  std::shared_ptr<Connection> connection_;
  std::string path_;
  std::string name_;
  Attributes attributes_;
  mutable Handle handle_;  // used by the thread that has the session
};

}  // namespace

std::shared_ptr<const ByteSource> open_file(std::shared_ptr<Connection> connection,
                                            const std::string& path, const std::string& name) {
  return connection->with([&](Session& session) -> std::shared_ptr<const ByteSource> {
    const auto there = stat(session, path);  // opening a pipe would wait for its other end
    if (!there || !there->is_file()) return nullptr;
    auto source = std::make_shared<FileSource>(connection, path, name, *there);
    source->use(session);
    return source;
  });
}

}  // namespace cairn::sftp
