#include "storage/uri_store.h"

#include "cairn/error.h"

#include "io/uri.h"
#include "storage/place.h"

namespace cairn {
namespace {

class UriStore final : public ObjectStore {
 public:
  UriStore(std::string root, std::shared_ptr<ObjectStore> under, UriNames names)
      : root_(std::move(root)), under_(std::move(under)), names_(std::move(names)) {}

  StoreFeatures features() const override { return under_->features(); }
  bool may_be_far() const override { return under_->may_be_far(); }
  std::string describe(const std::string& name) const override {
    return under_->describe(inside(name));
  }
  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    return under_->stat(inside(name), follow);
  }
  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    return under_->open(inside(name));
  }
  ListPage list(const std::string& folder, const std::string& page) override {
    return under_->list(inside(folder), page);
  }
  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& options) override {
    return under_->begin(inside(name), options);
  }
  std::unique_ptr<FolderWrite> begin_folder(const std::string& name, bool overwrite) override {
    return under_->begin_folder(inside(name), overwrite);
  }
  bool remove(const std::string& name) override { return under_->remove(inside(name)); }
  bool remove_folder(const std::string& name) override {
    return under_->remove_folder(inside(name));
  }
  void copy(const std::string& from, const std::string& to, const WriteCondition& condition,
            const std::string& from_version) override {
    under_->copy(inside(from), inside(to), condition, from_version);
  }
  void rename(const std::string& from, const std::string& to) override {
    under_->rename(inside(from), inside(to));
  }
  std::optional<Pointer> read_pointer(const std::string& name) override {
    auto pointer = under_->read_pointer(inside(name));
    if (pointer && !pointer->is_broken()) pointer->target = outside(pointer->target);
    return pointer;
  }
  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& expected) override {
    under_->move_pointer(inside(name), inside(target), expected);
  }
  std::string move_pointer_versioned(const std::string& name, const std::string& target,
                                     const std::optional<std::string>& expected) override {
    return under_->move_pointer_versioned(inside(name), inside(target), expected);
  }
  void prepare(const std::string& folder) override { under_->prepare(inside(folder)); }
  std::vector<std::string> remove_leftovers(const std::string& folder,
                                            const std::string& of) override {
    return under_->remove_leftovers(inside(folder), of);
  }
  bool restore(const std::string& name) override { return under_->restore(inside(name)); }
  bool is_being_written(const std::string& name) override {
    return under_->is_being_written(inside(name));
  }

 private:
  std::string inside(const std::string& name) const {
    if (!names_.shown.empty() && name == names_.shown) return names_.before + names_.meant;
    const Uri uri = split_uri(name);
    if (uri.scheme.empty()) return name;
    const bool is_shown = uri.root() == split_uri(shown_place(root_)).root();
    if (uri.root() == root_ || is_shown) return names_.before + uri.path;
    throw UsageError(shown_place(name) + " is not in " + shown_place(root_));
  }

  std::string outside(const std::string& name) const {
    return root_ + "/" + name.substr(name.starts_with(names_.before) ? names_.before.size() : 0);
  }

  std::string root_;
  std::shared_ptr<ObjectStore> under_;
  UriNames names_;
};

}  // namespace

std::shared_ptr<ObjectStore> uri_store(std::string root, std::shared_ptr<ObjectStore> under,
                                       UriNames names) {
  return std::make_shared<UriStore>(std::move(root), std::move(under), std::move(names));
}

}  // namespace cairn
