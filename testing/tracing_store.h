// A store that notes every call as a line of text, and forwards it.
//
//   begin run/ep0-ba1-rank0.pt if absent
//   write run/ep0-ba1-rank0.pt
//   commit run/ep0-ba1-rank0.pt
//   move_pointer run/latest-rank0.pt to run/ep0-ba1-rank0.pt if as seen
//
// A call that finds nothing ends with "-> nothing", and a call that throws with "-> refused". Calls
// for files named STOP and SAVE are left out: a separate thread looks for them at any time.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/error.h"
#include "cairn/storage/object_store.h"

#include "testing/trace.h"

namespace cairn::testing {

class TracingStore final : public ObjectStore {
 public:
  // If `features` is given, the store claims these features. `under` must support them.
  TracingStore(std::shared_ptr<ObjectStore> under, std::shared_ptr<Trace> trace,
               std::optional<StoreFeatures> features = std::nullopt)
      : under_(std::move(under)), trace_(std::move(trace)), features_(features) {}

  StoreFeatures features() const override { return features_.value_or(under_->features()); }
  bool may_be_far() const override { return true; }  // Even if it wraps local_store().
  bool names_are_paths() const override { return false; }
  std::string describe(const std::string& name) const override { return under_->describe(name); }
  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    return note((follow ? "stat " : "stat_link ") + name,
                [&] { return under_->stat(name, follow); });
  }
  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    return note("open " + name, [&]() -> std::shared_ptr<const ByteSource> {
      return std::make_shared<Source>(under_->open(name), trace_, name);
    });
  }
  ListPage list(const std::string& folder, const std::string& page) override {
    return note((page.empty() ? "list " : "list_more ") + folder,
                [&] { return under_->list(folder, page); });
  }
  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& options) override {
    const std::string how =
        text_of(options.condition.when) + (options.is_private ? " private" : "");
    return note("begin " + name + how, [&]() -> std::unique_ptr<ObjectWrite> {
      return std::make_unique<Write>(under_->begin(name, options), trace_, name);
    });
  }
  // If the objects of a folder appear one by one, the default implementation writes the folder
  // through begin().
  std::unique_ptr<FolderWrite> begin_folder(const std::string& name, bool overwrite) override {
    const auto make = [&] {
      return features().whole_folders ? under_->begin_folder(name, overwrite)
                                      : ObjectStore::begin_folder(name, overwrite);
    };
    return note("begin_folder " + name + (overwrite ? " always" : " if absent"),
                [&]() -> std::unique_ptr<FolderWrite> {
                  return std::make_unique<Folder>(make(), trace_, name);
                });
  }
  bool remove(const std::string& name) override {
    return note("remove " + name, [&] { return under_->remove(name); });
  }
  bool remove_folder(const std::string& name) override {
    return note("remove_folder " + name, [&] { return under_->remove_folder(name); });
  }
  void copy(const std::string& from, const std::string& to, const WriteCondition& condition,
            const std::string& from_version) override {
    note("copy " + from + " to " + to + text_of(condition.when),
         [&] { under_->copy(from, to, condition, from_version); });
  }
  void rename(const std::string& from, const std::string& to) override {
    note("rename " + from + " to " + to, [&] { under_->rename(from, to); });
  }
  std::optional<Pointer> read_pointer(const std::string& name) override {
    return note("read_pointer " + name, [&] { return under_->read_pointer(name); });
  }
  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& expected) override {
    const char* const how = !expected           ? " always"
                            : expected->empty() ? " if absent"
                                                : " if as seen";
    note("move_pointer " + name + " to " + target + how,
         [&] { under_->move_pointer(name, target, expected); });
  }
  void prepare(const std::string& folder) override {
    note("prepare " + folder, [&] { under_->prepare(folder); });
  }
  std::vector<std::string> remove_leftovers(const std::string& folder,
                                            const std::string& of) override {
    return note("remove_leftovers " + folder + (of.empty() ? "" : " of " + of),
                [&] { return under_->remove_leftovers(folder, of); });
  }
  bool restore(const std::string& name) override {
    return note("restore " + name, [&] { return under_->restore(name); });
  }
  bool is_being_written(const std::string& name) override {
    return note("is_being_written " + name, [&] { return under_->is_being_written(name); });
  }

 private:
  static std::string text_of(WriteCondition::If when) {
    switch (when) {
      case WriteCondition::If::kAlways:
        return " always";
      case WriteCondition::If::kAbsent:
        return " if absent";
      case WriteCondition::If::kVersion:
        break;
    }
    return " if of version";
  }

  template <class Act>
  auto note(const std::string& call, const Act& act) -> decltype(act()) {
    if (call.ends_with("/STOP") || call.ends_with("/SAVE")) return act();
    return trace_->note(call, act);
  }

  class Source final : public ByteSource {
   public:
    Source(std::shared_ptr<const ByteSource> under, std::shared_ptr<Trace> trace, std::string name)
        : under_(std::move(under)), trace_(std::move(trace)), name_(std::move(name)) {}
    std::uint64_t size() const override { return under_->size(); }
    const std::string& name() const override { return under_->name(); }
    void read(std::span<const Range> ranges) const override {
      if (!is_read_.exchange(true)) trace_->add("read " + name_);
      under_->read(ranges);
    }

   private:
    const std::shared_ptr<const ByteSource> under_;
    const std::shared_ptr<Trace> trace_;
    const std::string name_;
    mutable std::atomic<bool> is_read_ = false;  // Only the first read is noted.
  };

  class Write final : public ObjectWrite {
   public:
    Write(std::unique_ptr<ObjectWrite> under, std::shared_ptr<Trace> trace, std::string name)
        : under_(std::move(under)), trace_(std::move(trace)), name_(std::move(name)) {}
    void write(ByteView bytes) override {
      trace_->add("write " + name_);
      under_->write(bytes);
    }
    void write_at(std::uint64_t offset, SharedBytes bytes) override {
      trace_->add("write " + name_);
      under_->write_at(offset, std::move(bytes));
    }
    std::size_t piece_bytes() const override { return under_->piece_bytes(); }
    void make_durable() override {
      trace_->add("make_durable " + name_);
      under_->make_durable();
    }

   private:
    void publish() override {
      trace_->note("commit " + name_, [&] { under_->commit(); });
    }
    const std::unique_ptr<ObjectWrite> under_;
    const std::shared_ptr<Trace> trace_;
    const std::string name_;
  };

  class Folder final : public FolderWrite {
   public:
    Folder(std::unique_ptr<FolderWrite> under, std::shared_ptr<Trace> trace, std::string name)
        : under_(std::move(under)), trace_(std::move(trace)), name_(std::move(name)) {}
    std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                       std::uint64_t expected_bytes) override {
      return watched(name, under_->begin(name, expected_bytes));
    }
    std::unique_ptr<ObjectWrite> begin_private(const std::string& name,
                                               std::uint64_t expected_bytes) override {
      return watched(name, under_->begin_private(name, expected_bytes));
    }
    std::shared_ptr<const ByteSource> open(const std::string& name) const override {
      return under_->open(name);
    }
    void commit() override {
      trace_->note("commit_folder " + name_, [&] { under_->commit(); });
    }

   private:
    std::unique_ptr<ObjectWrite> watched(const std::string& name,
                                         std::unique_ptr<ObjectWrite> under) const {
      const std::string inside = name_ + "/ " + name;
      trace_->add("begin " + inside);
      return std::make_unique<Write>(std::move(under), trace_, inside);
    }
    const std::unique_ptr<FolderWrite> under_;
    const std::shared_ptr<Trace> trace_;
    const std::string name_;
  };

  const std::shared_ptr<ObjectStore> under_;
  const std::shared_ptr<Trace> trace_;
  const std::optional<StoreFeatures> features_;
};

}  // namespace cairn::testing
