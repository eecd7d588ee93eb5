// A store whose pointers do not record who moved them, as in a bucket. It can also be a store that
// does not check versions.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "cairn/error.h"
#include "cairn/storage/object_store.h"

namespace cairn::testing {

class PlainStore : public ObjectStore {
 public:
  PlainStore(std::shared_ptr<ObjectStore> under, bool versioned_writes)
      : under_(std::move(under)), versioned_writes_(versioned_writes) {}
  StoreFeatures features() const override { return {.versioned_writes = versioned_writes_}; }
  bool may_be_far() const override { return true; }  // Even if it wraps local_store().
  bool names_are_paths() const override { return false; }
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
    if (!versioned_writes_ && options.condition.when == WriteCondition::If::kVersion) {
      throw UnsupportedError("no versions here");
    }
    return under_->begin(name, options);
  }
  bool remove(const std::string& name) override { return under_->remove(name); }
  bool remove_folder(const std::string& name) override { return under_->remove_folder(name); }
  std::optional<Pointer> read_pointer(const std::string& name) override {
    auto pointer = under_->read_pointer(name);
    if (pointer) pointer->version = pointer->target;
    return pointer;
  }
  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& /*expected*/) override {
    under_->move_pointer(name, target);
  }

 private:
  const std::shared_ptr<ObjectStore> under_;
  const bool versioned_writes_;
};

}  // namespace cairn::testing
