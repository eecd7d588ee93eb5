// The base of a store that wraps another store and changes some of its functions. Derive a class,
// and override the functions that it changes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/storage/object_store.h"

namespace cairn {

// Passes every call on unchanged.
class ForwardingStore : public ObjectStore {
 public:
  StoreFeatures features() const override { return under_->features(); }
  bool may_be_far() const override { return under_->may_be_far(); }
  bool names_are_paths() const override { return under_->names_are_paths(); }
  std::string describe(const std::string& name) const override { return under_->describe(name); }
  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    return under_->stat(name, follow);
  }
  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    return under_->open(name);
  }
  ListPage list(const std::string& folder, const std::string& page) override {
    return under_->list(folder, page);
  }
  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& options) override {
    return under_->begin(name, options);
  }
  std::unique_ptr<FolderWrite> begin_folder(const std::string& name, bool overwrite) override {
    return under_->begin_folder(name, overwrite);
  }
  bool remove(const std::string& name) override { return under_->remove(name); }
  bool remove_folder(const std::string& name) override { return under_->remove_folder(name); }
  void copy(const std::string& from, const std::string& to, const WriteCondition& condition,
            const std::string& from_version) override {
    under_->copy(from, to, condition, from_version);
  }
  void rename(const std::string& from, const std::string& to) override { under_->rename(from, to); }
  std::optional<Pointer> read_pointer(const std::string& name) override {
    return under_->read_pointer(name);
  }
  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& expected) override {
    under_->move_pointer(name, target, expected);
  }
  void prepare(const std::string& folder) override { under_->prepare(folder); }
  std::vector<std::string> remove_leftovers(const std::string& folder,
                                            const std::string& of) override {
    return under_->remove_leftovers(folder, of);
  }
  bool restore(const std::string& name) override { return under_->restore(name); }
  bool is_being_written(const std::string& name) override { return under_->is_being_written(name); }

 protected:
  explicit ForwardingStore(std::shared_ptr<ObjectStore> under) : under_(std::move(under)) {}

  const std::shared_ptr<ObjectStore> under_;
};

}  // namespace cairn
