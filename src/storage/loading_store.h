// A store from which things can only be loaded: derive, and say how they are found and opened.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/error.h"
#include "cairn/storage/object_store.h"

namespace cairn {

// Everything but stat(), open() and read_pointer() is an UnsupportedError.
class LoadingStore : public ObjectStore {
 public:
  ListPage list(const std::string& folder, const std::string& /*page*/) override {
    refuse(folder, "listed");
  }
  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& /*options*/) override {
    refuse(name, "written");
  }
  bool remove(const std::string& name) override { refuse(name, "removed"); }
  bool remove_folder(const std::string& name) override { refuse(name, "removed"); }
  void rename(const std::string& from, const std::string& /*to*/) override {
    refuse(from, "renamed");
  }
  void move_pointer(const std::string& name, const std::string& /*target*/,
                    const std::optional<std::string>& /*expected*/) override {
    refuse(name, "written");
  }
  void prepare(const std::string& folder) override { refuse(folder, "written"); }

 protected:
  // Why, and what to do instead.
  virtual std::string why_loading_only() const = 0;

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& what) const {
    throw UnsupportedError(describe(name) + " cannot be " + what + ": " + why_loading_only());
  }
};

}  // namespace cairn
