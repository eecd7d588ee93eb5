// A file system that notes every call that changes or syncs something, and forwards all calls.
//
//   create /run/.cairn-tmp-ep0-ba1-rank0.pt-* locked
//   write /run/.cairn-tmp-ep0-ba1-rank0.pt-*
//   sync /run/.cairn-tmp-ep0-ba1-rank0.pt-*
//   rename /run/.cairn-tmp-ep0-ba1-rank0.pt-* to /run/ep0-ba1-rank0.pt
//   sync_folder /run
//
// Calls that only look (stat, open, list, read_link) are left out. A call that does nothing ends
// with "-> nothing", and a call that throws with "-> refused".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "io/file.h"
#include "testing/trace.h"

namespace cairn::testing {

class TracingFiles final : public FileSystem {
 public:
  // `under` must outlive it.
  TracingFiles(FileSystem& under, std::shared_ptr<Trace> trace)
      : under_(under), trace_(std::move(trace)) {}

  std::unique_ptr<WritableFile> create(const FilePath& path,
                                       const CreateOptions& options) override {
    const std::string how =
        std::string(options.lock ? " locked" : "") + (options.is_private ? " private" : "");
    return note("create " + path.text() + how, [&]() -> std::unique_ptr<WritableFile> {
      return std::make_unique<File>(under_.create(path, options), trace_, path.text());
    });
  }
  std::unique_ptr<WritableFile> overwrite(const FilePath& path,
                                          std::uint64_t expected_bytes) override {
    return note("overwrite " + path.text(), [&]() -> std::unique_ptr<WritableFile> {
      auto file = under_.overwrite(path, expected_bytes);
      if (file == nullptr) return nullptr;
      return std::make_unique<File>(std::move(file), trace_, path.text());
    });
  }
  std::shared_ptr<const ByteSource> open(const std::string& path) override {
    return under_.open(path);
  }
  void rename(const FilePath& from, const FilePath& to, bool overwrite) override {
    note("rename " + from.text() + " to " + to.text() + (overwrite ? "" : " if absent"),
         [&] { under_.rename(from, to, overwrite); });
  }
  bool exchange(const FilePath& one, const FilePath& other) override {
    return note("exchange " + one.text() + " and " + other.text(),
                [&] { return under_.exchange(one, other); });
  }
  void make_link(const std::string& target, const FilePath& path) override {
    note("link " + path.text() + " to " + target, [&] { under_.make_link(target, path); });
  }
  std::optional<std::string> read_link(const std::string& path) override {
    return under_.read_link(path);
  }
  bool remove(const FilePath& path) override {
    return note("unlink " + path.text(), [&] { return under_.remove(path); });
  }
  std::shared_ptr<void> lock_folder(const FolderPath& path) override {
    return note("lock_folder " + path.text(), [&] { return under_.lock_folder(path); });
  }
  bool remove_unlocked(const FilePath& path) override {
    return note("unlink_unlocked " + path.text(), [&] { return under_.remove_unlocked(path); });
  }
  bool remove_folder(const FilePath& path) override {
    return note("rmdir " + path.text(), [&] { return under_.remove_folder(path); });
  }
  void make_folders(const FolderPath& path) override {
    note("make_folders " + path.text(), [&] { under_.make_folders(path); });
  }
  void sync_folder(const FolderPath& path) override {
    note("sync_folder " + path.text(), [&] { under_.sync_folder(path); });
  }
  std::optional<FileInfo> stat(const std::string& path, bool follow) override {
    return under_.stat(path, follow);
  }
  std::vector<std::string> list(const std::string& folder) override { return under_.list(folder); }
  FileLock lock_file(const FilePath& path, const std::string& text) override {
    return note("lock_file " + path.text(), [&] { return under_.lock_file(path, text); });
  }
  std::optional<std::uint64_t> free_bytes(const std::string& folder) override {
    return under_.free_bytes(folder);
  }

 private:
  template <class Act>
  auto note(const std::string& call, const Act& act) -> decltype(act()) {
    return trace_->note(call, act);
  }

  class File final : public WritableFile {
   public:
    File(std::unique_ptr<WritableFile> under, std::shared_ptr<Trace> trace, std::string path)
        : under_(std::move(under)), trace_(std::move(trace)), path_(std::move(path)) {}
    void write(ByteView bytes) override {
      trace_->add("write " + path_);
      under_->write(bytes);
    }
    void write_shared(const SharedBytes& bytes) override {
      trace_->add("write " + path_);
      under_->write_shared(bytes);
    }
    void sync() override {
      trace_->note("sync " + path_, [&] { under_->sync(); });
    }
    void close() override { under_->close(); }

   private:
    const std::unique_ptr<WritableFile> under_;
    const std::shared_ptr<Trace> trace_;
    const std::string path_;
  };

  FileSystem& under_;
  const std::shared_ptr<Trace> trace_;
};

}  // namespace cairn::testing
